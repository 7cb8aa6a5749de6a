// Duel: play against a player that learns while it plays, or watch two players.
import { call, facts, field, fmt, h, newest, onJob, restored, say, select, snippet, start, table, tiny, trouble } from "/static/ui.js";
import { lines } from "/static/plot.js";

export async function open(root, state, save) {
  const kept = restored({ game: { name: "rock-paper-scissors" }, player: "any", seat: "row", seed: 0, moves: [], row: "any", column: "any", rounds: 256 }, state);
  const own = kept.game;
  const oops = trouble(), board = h("div"), moves = h("div", { class: "moves" }), history = h("div", { hidden: true }), code = snippet(), watched = h("div"), count = h("summary"), turns = h("div"), watchedCode = snippet("The same in Python and as a command");
  const curve = lines({ title: "NashConv of its policy", xlabel: "round", ylabel: "NashConv", log: false });
  const other = lines({ title: "NashConv of both policies", xlabel: "round", ylabel: "NashConv" });
  const form = h("div", { class: "side" });
  history.append(h("details", { class: "more" }, count, turns));
  root.append(h("div", { class: "side" }, h("h1", {}, "Duel"),
    h("p", { class: "note" }, "The player sees only its own actions and rewards. It draws its action before you choose yours."), oops, form),
  h("div", { class: "work" }, h("section", {}, h("h2", {}, "Your move"), moves, board), curve, history,
    h("section", {}, h("h2", {}, "Watch two players"), h("div", { class: "row", id: "watch" }), watched), other, watchedCode), code);

  const restart = () => { kept.moves = []; play(); };
  const play = newest(() => oops.guard(turn));
  async function turn() {
    save(kept);
    const asked = kept.moves.length;
    const waiting = setTimeout(() => { if (!board.firstChild) board.replaceChildren(h("p", { class: "note" }, "Loading the player. This takes some seconds the first time.")); }, 400);
    let found;
    try { found = await call("duel", "play", { game: kept.game, player: kept.player, seat: kept.seat, seed: kept.seed, moves: kept.moves }); }
    catch (error) { kept.moves = kept.moves.slice(0, asked - 1); save(kept); throw error; }
    finally { clearTimeout(waiting); }
    show(found);
  }

  let offered = ""; // the actions on the buttons
  function show(found) {
    if (offered !== JSON.stringify(found.yours)) { // otherwise, the buttons stay for the next click
      offered = JSON.stringify(found.yours);
      moves.replaceChildren(...found.yours.map((name, a) => h("button", { type: "button", accessKey: String(a + 1), onclick: () => { kept.moves = [...kept.moves, a]; play(); } }, name)));
    }
    const last = found.turns.at(-1), played = found.turns.length;
    const told = last ? `${found.yours[last[0]]} against ${found.theirs[last[1]]}: you get ${fmt(last[2])}.` : "Choose an action.";
    board.replaceChildren(h("p", {}, h("strong", {}, told)),
      facts([["Rounds", played], ["Your score", found.score], ["Value of the game × rounds", tiny(found.expected)], [`Always ${found.best_action}`, found.best_action_score], ["A best response to its policies", found.best_response]]),
      table({ columns: ["its next action", "probability"], rows: found.policy.map((p, a) => [found.theirs[a], p]) }, "Its current policy."));
    const x = found.held[0].map((_, k) => k);
    curve.show(found.held.map((y, k) => ({ name: k ? "mirror descent, given the same moves" : "your opponent", x, y: y.map(tiny) })));
    curve.hidden = history.hidden = !played; // a single point is not a curve
    count.textContent = `All rounds (${played}), and what the player saw`;
    turns.replaceChildren(table({ columns: ["round", "you", "player", "you get", "player sees"], rows: found.turns.map(([a, b, earned, seen], t) => [t + 1, found.yours[a], found.theirs[b], earned, seen]).reverse() }));
    code.show(found);
    if (last) say(told);
  }

  // The players continue when the page is closed; a page with the same settings shows their result.
  const pair = () => ({ game: kept.game, row: kept.row, column: kept.column, rounds: kept.rounds, seed: kept.seed });
  const watch = () => oops.guard(() => start("duel", "watch", { ...pair(), title: "Watch two players" }));
  function listen({ room, request, state, result: found, error }) {
    const { title, ...asked } = request ?? {};
    if (room !== "duel" || JSON.stringify(asked) !== JSON.stringify(pair())) return;
    if (state === "failed") watched.replaceChildren(h("p", { class: "error" }, error));
    if (state !== "done") return;
    other.show([{ name: "these two", x: found.rounds, y: found.curve }, { name: "mirror descent against itself", x: found.rounds, y: found.mirror }]);
    watched.replaceChildren(facts([["NashConv at the end", found.curve.at(-1)], ["NashConv of mirror descent", found.mirror.at(-1)], [`Mean reward of ${found.players[0]}`, found.reward]]));
    watchedCode.show(found);
    say(`NashConv ${fmt(found.curve.at(-1))} after ${kept.rounds} rounds.`);
  }

  const catalogue = await call("duel", "catalogue");
  form.append(
    field("Game", select([...(kept.game.name ? [] : [["", "My own game"]]), ...catalogue.games.map((one) => [one.name, one.title])], kept.game.name ?? "", (name) => { kept.game = name ? { name } : own; restart(); })),
    field("Opponent", select(catalogue.opponents, kept.player, (x) => { kept.player = x; restart(); })),
    h("div", { class: "row" }, field("Your seat", select([["row", "row"], ["column", "column"]], kept.seat, (x) => { kept.seat = x; restart(); })),
      field("Seed", h("input", { type: "number", min: 0, value: kept.seed, onchange: (e) => { kept.seed = Math.max(0, Math.round(+e.target.value)); restart(); } })),
      h("button", { type: "button", onclick: restart }, "Start again")));
  root.querySelector("#watch").append(
    field("Row", select(catalogue.players, kept.row, (x) => { kept.row = x; save(kept); })),
    field("Column", select(catalogue.players, kept.column, (x) => { kept.column = x; save(kept); })),
    field("Rounds", h("input", { type: "number", min: 1, max: 4096, value: kept.rounds, onchange: (e) => { kept.rounds = Math.round(+e.target.value); save(kept); } })),
    h("button", { type: "button", class: "main", onclick: watch }, "Play"));
  await turn();
  return onJob(listen);
}
