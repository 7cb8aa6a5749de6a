"""A market of thirty sellers, from a messy table to advice: one command."""

import numpy as np

import equipoise as eq
from equipoise.cli import main
from equipoise.offline._aggregate import Aggregate

SELLERS, PRICES, DAYS = 30, ("1.99", "2.49", "2.99", "3.49"), 1_200
MARGIN = np.array([0.6, 1.1, 1.6, 2.1])


def market(rng):
    """Profits by season, seller, own price and the sum of the others' prices (from 0 to 87).

    Customers of every other seller mind the price, so that half of them should be cheap.
    """
    load = np.arange((SELLERS - 1) * 3 + 1)
    minds = np.where(np.arange(SELLERS) % 2, 1.4, 0.6) + rng.uniform(0.0, 0.2, SELLERS)
    own = np.arange(4)[:, None] * minds.reshape(1, SELLERS, 1, 1)
    pull = 1.2 / (1.0 + np.exp(-(load - 43.5) / 6.0))
    high = np.array([0.0, 0.3]).reshape(2, 1, 1, 1)
    table = np.zeros((2, SELLERS, 8, len(load)))  # present, then absent: nothing earned
    table[:, :, :4] = MARGIN[:, None] * np.maximum(3.0 + high - own + pull, 0.0)
    scores = tuple((u,) if u < 4 else (0,) for u in range(8))
    return Aggregate(table, scores, (len(load),))


def test_one_command_leads_from_a_messy_table_to_advice(tmp_path):
    rng = np.random.default_rng(4004)
    game = market(rng)
    season = (np.arange(DAYS) // 90) % 2
    away = rng.random((DAYS, SELLERS)) < 0.02
    price = rng.integers(0, 4, (DAYS, SELLERS))
    profit = game.rewards(season, np.where(away, 4, price))
    profit = profit + rng.normal(0, 0.15, profit.shape)
    lines = ["day,seller,town,price,profit,season,remark"]
    for day in range(DAYS):
        for i in rng.permutation(SELLERS):
            if away[day, i] and rng.random() < 0.5:
                continue  # a missing row; otherwise a row with a gap
            earned = "" if away[day, i] else f"{profit[day, i]:.3f}"
            asked = "" if away[day, i] else PRICES[price[day, i]]
            words = (day, f"Shop {i}", "north", asked, earned)
            lines.append(",".join(map(str, (*words, ("low", "high")[season[day]], " n/a "))))
    (tmp_path / "sales.csv").write_text("\n".join(lines) + "\n")
    words = ["offline", str(tmp_path / "sales.csv"), "--agent", "seller", "--time", "day"]
    words += ["--action", "price", "--reward", "profit", "--context", "season"]
    run = tmp_path / "run"
    assert main([*words, "--run", str(run)]) == 0
    assert "Shop 29" in (run / "policy.csv").read_text()
    solution = eq.runs.Record.load(run).solution
    policies = eq.games.policy_from_plain(solution["policy"]).policies
    assert solution["stats"]["labels"]["contexts"] == ["high", "low"]
    policies = policies[:, ::-1]  # here the low season comes first

    def gap(policies):
        here = np.stack([np.full(SELLERS, 0.98), np.full(SELLERS, 0.02)], -1)
        chances = (policies[:, :, 0] * here[..., None]).reshape(-1, 2, SELLERS, 8)
        rewards = game.expected(chances)
        value = (rewards * chances).sum(-1).mean(0)
        best = 0.98 * rewards.mean(0)[..., :4].max(-1)
        weight = np.bincount(season) / DAYS
        return float((weight @ (best - value)).max())

    own = np.zeros((1, 2, 1, SELLERS, 2, 4))
    own[..., 0, :], own[..., 1, 0] = 0.25, 1.0
    low, high = solution["stats"]["interval"]
    assert gap(policies) < 0.05 * gap(own)
    assert low <= gap(policies) <= high
