"""Results stand for their policies: `certify` and `write_policy` take a solution."""

import equipoise as eq


def test_a_solution_is_certified_and_written_as_its_policy(tmp_path):
    for name in ("prisoners-dilemma", "two-roads", "braess-network"):
        game = eq.games.load(name)
        solution = eq.solve(game)
        assert eq.certify(game, solution) == eq.certify(game, solution.policy)
        eq.write_policy(tmp_path / "policy.json", solution)
        assert eq.read_policy(tmp_path / "policy.json") == solution.policy
    (best, *_) = eq.aggregative.equilibria(eq.games.load("public-good", agents=900))
    assert float(eq.certify(eq.games.load("public-good", agents=900), best).max_gain) == best.gain


def test_a_plain_solution_becomes_json_by_our_writer():
    solution = eq.solve(eq.games.load("prisoners-dilemma"))
    text = eq.core.plain.dumps(solution.to_plain())
    assert eq.certificates.solution_from_plain(eq.core.plain.loads(text)) == solution
