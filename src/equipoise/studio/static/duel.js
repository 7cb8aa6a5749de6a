// Duel: play a player that learns you while you play, or watch two of them.
import { call, facts, field, fmt, h, newest, say, select, snippet, table, trouble } from "/static/ui.js";
import { lines } from "/static/plot.js";

export async function open(root, state, save) {
  const kept = { game: { name: "rock-paper-scissors" }, player: "any", seat: "row", seed: 0, moves: [], row: "any", column: "any", rounds: 256, ...state };
  const oops = trouble(), board = h("div", { "aria-live": "polite" }), moves = h("div", { class: "moves" }), history = h("div"), code = snippet(), watched = h("div", { "aria-live": "polite" });
  const curve = lines({ title: "NashConv of what it holds", xlabel: "round", ylabel: "NashConv", log: false });
  const other = lines({ title: "NashConv of what both hold", xlabel: "round", ylabel: "NashConv" });
  const form = h("div", { class: "side" });
  root.append(h("div", { class: "side" }, h("h1", {}, "Duel"),
    h("p", { class: "note" }, "The player sees only its own actions and rewards. It draws its action before you choose yours."), oops, form, code),
  h("div", { class: "work" }, h("section", {}, h("h2", {}, "Your move"), moves, board), curve, history,
    h("section", {}, h("h2", {}, "Watch two play"), h("div", { class: "row", id: "watch" }), watched), other));

  const restart = () => { kept.moves = []; play(); };
  const play = newest(() => oops.guard(async () => {
    save(kept);
    const asked = kept.moves.length;
    const waiting = setTimeout(() => { if (!board.firstChild) board.replaceChildren(h("p", { class: "note" }, "The player is being loaded. This takes some seconds the first time.")); }, 400);
    let found;
    try { found = await call("duel", "play", { game: kept.game, player: kept.player, seat: kept.seat, seed: kept.seed, moves: kept.moves }); }
    catch (error) { kept.moves = kept.moves.slice(0, asked - 1); save(kept); throw error; }
    finally { clearTimeout(waiting); }
    show(found);
  }));

  function show(found) {
    moves.replaceChildren(...found.yours.map((name, a) => h("button", { type: "button", accessKey: String(a + 1), onclick: () => { kept.moves = [...kept.moves, a]; play(); } }, name)));
    const last = found.turns.at(-1), count = found.turns.length;
    const told = last ? `${found.yours[last[0]]} against ${found.theirs[last[1]]}: you get ${fmt(last[2])}.` : "Choose an action.";
    board.replaceChildren(h("p", {}, h("strong", {}, told)),
      facts([["Rounds", count], ["Your score", found.score], ["Value of the game × rounds", Math.abs(found.value) < 1e-12 ? 0 : found.value * count], [`Always ${found.best_action}`, found.best_action_score], ["A best response to its policies", found.best_response]]),
      table({ columns: ["its next action", "probability"], rows: found.policy.map((p, a) => [found.theirs[a], p]) }, "What it holds now."));
    const x = found.held[0].map((_, k) => k);
    curve.show(found.held.map((y, k) => ({ name: k ? "mirror descent, after the same moves of yours" : "your opponent", x, y: y.map((v) => (v < 1e-12 ? 0 : v)) })));
    history.replaceChildren(count ? h("details", { class: "more" }, h("summary", {}, `All ${count} rounds: what it has seen`), table({ columns: ["round", "you", "it", "you get", "it sees"], rows: found.turns.map(([a, b, r], t) => [t + 1, found.yours[a], found.theirs[b], r, -r]).reverse() })) : "");
    code.show({ Python: found.python, Command: found.command });
    if (last) say(told);
  }

  async function watch() {
    const found = await oops.guard(() => call("duel", "watch", { game: kept.game, row: kept.row, column: kept.column, rounds: kept.rounds, seed: kept.seed }));
    if (!found) return;
    other.show([{ name: "these two", x: found.rounds, y: found.curve }, { name: "mirror descent against itself", x: found.rounds, y: found.mirror }]);
    watched.replaceChildren(facts([["NashConv at the end", found.curve.at(-1)], ["of mirror descent", found.mirror.at(-1)], [`${found.players[0]} earned, a round`, found.reward]]));
    say(`NashConv ${fmt(found.curve.at(-1))} after ${kept.rounds} rounds.`);
  }

  const catalogue = await oops.guard(() => call("duel", "catalogue"));
  if (!catalogue) return undefined;
  form.append(
    field("Game", select(catalogue.games.map((one) => [one.name, one.title]), kept.game.name, (name) => { kept.game = { name }; restart(); })),
    field("Opponent", select(catalogue.players, kept.player, (x) => { kept.player = x; restart(); })),
    h("div", { class: "row" }, field("Your seat", select([["row", "row"], ["column", "column"]], kept.seat, (x) => { kept.seat = x; restart(); })),
      field("Seed", h("input", { type: "number", min: 0, value: kept.seed, onchange: (e) => { kept.seed = Math.max(0, Math.round(+e.target.value)); restart(); } })),
      h("button", { type: "button", onclick: restart }, "Start again")));
  root.querySelector("#watch").append(
    field("Row", select(catalogue.players, kept.row, (x) => { kept.row = x; save(kept); })),
    field("Column", select(catalogue.players, kept.column, (x) => { kept.column = x; save(kept); })),
    field("Rounds", h("input", { type: "number", min: 1, max: 4096, value: kept.rounds, onchange: (e) => { kept.rounds = Math.round(+e.target.value); save(kept); } })),
    h("button", { type: "button", class: "main", onclick: watch }, "Play"));
  await play();
  return undefined;
}
