"""The experiment of learning aggregative equilibria, in small."""

from reproduction import aggregative_learning as paper


def test_every_learner_has_its_curves(tmp_path):
    config = paper.Config(
        agents=12, types=2, episodes=(2, 6), printed_episodes=2, seeds=1, spacing=0.2
    )
    record = paper.run(config)
    for name in config.learners:
        stops = 1 if name == "printed" else 2
        for measure in paper.MEASURES:
            assert record.arrays[f"{name}/{measure}"].shape == (stops, 1)
        assert (record.arrays[f"{name}/gap"] >= -1e-12).all()
    table = record.tables["results"]
    assert len(table.rows) == 2 * len(config.learners) - 1
    ours, printed = (record.arrays[f"{name}/gap"][0, 0] for name in ("known", "printed"))
    assert ours < printed
    paper.plot(record).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_kept_record_meets_what_is_said_of_it():
    """The figures in docs/reproduction are of this record."""
    from pathlib import Path

    from equipoise.runs import Record

    folder = Path(__file__).parents[2] / "docs" / "reproduction" / "aggregative" / "learning"
    record = Record.load(folder)
    rows = {
        (r[0], r[1]): dict(zip(record.tables["results"].columns, r, strict=True))
        for r in record.tables["results"].rows
    }
    assert rows["unknown, scouts", 100]["seeds"] == 8
    assert rows["unknown, scouts", 100]["gap"] <= 0.02
    assert rows["unknown, pooled", 100]["gap"] <= 0.06
    assert rows["unknown, each alone", 100]["gap"] <= 0.06
    assert rows["unknown, noise 0.3", 100]["gap"] <= 0.08
