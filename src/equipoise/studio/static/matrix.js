// Matrix: type a game of two players, see what is stable, drag policies and watch their certificates.
import { call, copy, drop, facts, field, fmt, h, newest, range, say, select, snippet, table, trouble, upload } from "/static/ui.js";
import { lines, simplex } from "/static/plot.js";

const CONCEPTS = [["nash", "Nash equilibrium"], ["ce", "Best correlated equilibrium"], ["cce", "Best coarse correlated equilibrium"]];
const tiny = (value) => (Math.abs(value) < 1e-12 ? 0 : value); // what rounding leaves of a zero
const OBJECTIVES = [["weights", "Weigh the players"], ["welfare", "Sum of both"], ["egalitarian", "The worse off"], ["entropy", "Most random"]];

/** Cells of a pasted table: parted by tabs, wide gaps, semicolons or bars, in brackets, or plain. */
function cellsOf(text) {
  const lines = text.replace(/\]\s*,\s*\[/g, "\n").replace(/[[\]]/g, "").split("\n").map((line) => line.trim()).filter(Boolean);
  const some = (pattern) => lines.some((line) => pattern.test(line));
  const apart = /\t|\s{2,}|;|\|/;
  const cut = some(/\(/) ? (line) => [...line.matchAll(/\(([^)]*)\)/g)].map((found) => found[1])
    : some(apart) ? (line) => line.split(apart)
      : some(/\S,\S+\s+\S+,\S/) ? (line) => line.split(/\s+/) // 3,1 0,0
        : (line) => line.split(/\s*,\s*|\s+/);
  return lines.map((line) => cut(line).map((cell) => cell.trim()).filter(Boolean));
}

export async function open(root, state, save) {
  let kept = { game: { name: "rock-paper-scissors" }, concept: "nash", objective: "weights", weight: 0.5, policy: null, learner: "omd", ...state };
  let game = null, timer = 0;
  const oops = trouble(), learnerOops = trouble();
  const editor = h("div", { class: "scroll" }), answer = h("div", { "aria-live": "polite" }), dragged = h("div", { "aria-live": "polite" });
  const pictures = h("div", { class: "pictures" }), sliders = h("div"), list = h("div"), code = snippet();
  const curve = lines({ title: "NashConv of what the learners hold", xlabel: "round", ylabel: "NashConv" });
  const learning = h("section", { hidden: true });
  const picker = select([["", "My own game"]], "", (name) => name && change({ name }));
  const weight = range("Weight of the first player", { min: 0, max: 1, step: 0.01, value: kept.weight, oninput: (x) => { kept.weight = x; solve(); } });
  const objective = field("Best for", select(OBJECTIVES, kept.objective, (x) => { kept.objective = x; solve(); }));
  const paste = h("textarea", { rows: 4, placeholder: "3, 1   0, 0\n0, 0   1, 3", "aria-label": "Payoffs to paste" });

  root.append(
    h("div", { class: "side" },
      h("h1", {}, "Matrix"),
      h("p", { class: "note" }, "One number in every cell makes a zero-sum game: what the row player gets. Two numbers, as in 3, 1, are what row and column get."),
      field("Game", picker), oops, editor,
      h("div", { class: "row" }, ...[["Add row", () => resize(1, 0)], ["Add column", () => resize(0, 1)], ["Drop row", () => resize(-1, 0)], ["Drop column", () => resize(0, -1)]].map(([text, act]) => h("button", { type: "button", onclick: act }, text))),
      h("details", { class: "more" }, h("summary", {}, "Paste a table"), paste,
        h("button", { type: "button", onclick: pasted }, "Use it")),
      drop("Open a .nfg or .csv file", ".nfg,.csv,.npz", (file) => oops.guard(async () => change({ file: await upload(file) }))),
      h("div", { class: "row" }, field("Find", select(CONCEPTS, kept.concept, (x) => { kept.concept = x; solve(); })), objective), weight),
    h("div", { class: "work" }, answer, h("section", {}, h("h2", {}, "Your own policies"),
      h("p", { class: "note" }, "Drag a dot or a slider: the certificate says how much each player could still gain."), pictures, sliders, dragged), list, learning));

  root.append(code);
  const spec = () => kept.game;

  async function change(next) {
    clearInterval(timer);
    await oops.guard(async () => {
      const found = await call("matrix", "open", { game: next });
      kept = { ...kept, game: next, policy: null };
      game = found;
      await show();
    });
  }

  async function show() {
    picker.value = kept.game.name ?? "";
    edit(); draw(); save(kept);
    await Promise.all([solve(), certify(), all(), replies()]);
  }

  function typed() {
    const cells = [...editor.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td input")].map((i) => i.value));
    const rows = [...editor.querySelectorAll("tbody th input")].map((i) => i.value), columns = [...editor.querySelectorAll("thead th input")].map((i) => i.value);
    return { cells, actions: [rows, columns], players: game.players };
  }

  function edit() {
    const [a, b] = game.payoffs;
    const text = (i, j) => (game.zero_sum ? fmt(a[i][j], 12) : `${fmt(a[i][j], 12)}, ${fmt(b[i][j], 12)}`).replaceAll(",000", "000");
    const onchange = () => { clearTimeout(timer); change(typed()); };
    const input = (value, label) => h("input", { value, onchange, "aria-label": label, spellcheck: false });
    editor.replaceChildren(h("table", { class: "cells" },
      h("thead", {}, h("tr", {}, h("td"), game.actions[1].map((name, j) => h("th", { scope: "col" }, input(name, `Name of column ${j + 1}`))))),
      h("tbody", {}, game.actions[0].map((name, i) => h("tr", {}, h("th", { scope: "row" }, input(name, `Name of row ${i + 1}`)),
        game.actions[1].map((_, j) => h("td", {}, input(text(i, j), `Payoff in row ${i + 1}, column ${j + 1}`))))))));
  }

  function resize(rows, columns) {
    const now = typed(), zero = game.zero_sum ? "0" : "0, 0";
    if (rows > 0) { now.cells.push(now.cells[0].map(() => zero)); now.actions[0].push(`row ${now.cells.length}`); }
    if (rows < 0 && now.cells.length > 1) { now.cells.pop(); now.actions[0].pop(); }
    if (columns > 0) { now.cells.forEach((row) => row.push(zero)); now.actions[1].push(`column ${now.cells[0].length}`); }
    if (columns < 0 && now.cells[0].length > 1) { now.cells.forEach((row) => row.pop()); now.actions[1].pop(); }
    change(now);
  }

  function pasted() {
    const cells = cellsOf(paste.value);
    change({ cells });
  }

  const solve = newest(() => oops.guard(async () => {
    objective.hidden = kept.concept === "nash";
    weight.hidden = kept.concept === "nash" || kept.objective !== "weights";
    save(kept);
    const objectiveOf = kept.objective === "weights" ? [kept.weight, 1 - kept.weight] : kept.objective;
    const found = await call("matrix", "solve", { game: spec(), concept: kept.concept, objective: kept.concept === "nash" ? null : objectiveOf });
    const names = game.players;
    answer.replaceChildren(
      h("h2", {}, CONCEPTS.find(([key]) => key === kept.concept)[1]),
      facts([[`Value to ${names[0]}`, tiny(found.value[0])], [`Value to ${names[1]}`, tiny(found.value[1])],
        ["Nobody gains more than", found.certificate.max_upper, found.solved ? "good" : "bad"]]),
      found.policy ? policies(found.policy) : joint(found.joint),
      h("details", { class: "more" }, h("summary", {}, "Certificate"), table(found.certificate.table, `${found.status}. Found by ${found.certificate.method}.`)));
    code.show({ Python: found.python, Command: found.command });
    if (!spec().name && !spec().file) code.append(h("button", { type: "button", onclick: saveGame }, "Save this game as uploads/game.nfg"));
    if (found.policy && !kept.policy) { kept.policy = found.policy.map((p) => [...p]); point(); certify(); }
    say(`Nobody gains more than ${fmt(found.certificate.max_upper)}.`);
  }));

  async function saveGame(event) {
    await oops.guard(async () => { const { file } = await call("matrix", "save", { game: spec(), file: "game.nfg" }); event.target.textContent = `Saved ${file}`; });
  }

  function policies(found) {
    const longest = Math.max(...game.actions.map((names) => names.length));
    return h("div", { class: "pictures" }, found.map((p, k) => table({ columns: [game.players[k], "probability"], rows: p.map((v, a) => [game.actions[k][a], v]).filter(([, v]) => longest < 13 || v > 1e-9) })));
  }

  function joint(found) {
    return h("div", { class: "heat" }, table({ columns: ["", ...game.actions[1]], rows: found.map((row, i) => [game.actions[0][i], ...row]) }, "How often each pair of actions is drawn."));
  }

  const drawn = [null, null];
  function draw() {
    pictures.replaceChildren();
    game.actions.forEach((names, k) => {
      drawn[k] = names.length === 2 || names.length === 3 ? simplex({ title: `Policy of ${game.players[k]}`, actions: names, replies: game.actions[1 - k], onDrag: (p) => { kept.policy[k] = p; moved(); } }) : null;
      if (drawn[k]) pictures.append(drawn[k]);
    });
    kept.policy ??= null;
    const policy = kept.policy ?? game.actions.map((names) => names.map(() => 1 / names.length));
    sliders.replaceChildren(...(Math.max(...game.actions.map((n) => n.length)) > 12 ? [] : [h("div", { class: "pictures" }, game.actions.map((names, k) => h("fieldset", {}, h("legend", {}, game.players[k]),
      names.map((name, a) => { const r = range(name, { min: 0, max: 1, step: 0.01, value: policy[k][a], show: (v) => fmt(v, 3), oninput: (x) => slide(k, a, x) }); r.dataset.at = `${k}-${a}`; return r; }))))]));
    learning.hidden = !game.zero_sum;
    point();
  }

  function slide(k, a, x) {
    kept.policy ??= game.actions.map((names) => names.map(() => 1 / names.length));
    const p = kept.policy[k], rest = 1 - p[a];
    kept.policy[k] = p.map((v, b) => (b === a ? x : rest > 1e-9 ? (v * (1 - x)) / rest : (1 - x) / (p.length - 1 || 1)));
    if (kept.policy[k].length === 1) kept.policy[k] = [1];
    moved();
  }

  function point() {
    if (!kept.policy) return;
    kept.policy.forEach((p, k) => {
      drawn[k]?.point(p);
      p.forEach((v, a) => sliders.querySelector(`[data-at="${k}-${a}"]`)?.set(v));
    });
  }
  const moved = () => { point(); certify(); };

  const certify = newest(async () => {
    if (!kept.policy) return;
    save(kept);
    const found = await oops.guard(() => call("matrix", "certify", { game: spec(), policy: kept.policy }));
    if (!found || found.gains.length !== 2) return;
    dragged.replaceChildren(facts([...game.players.map((name, k) => [`${name} could gain`, found.gains[k], found.gains[k] > 1e-6 ? "bad" : "good"]), ["NashConv", found.nash_conv], ...game.players.map((name, k) => [`Value to ${name}`, tiny(found.value[k])])]));
  });

  async function replies() {
    const found = await oops.guard(() => call("matrix", "replies", { game: spec() }));
    found?.regions.forEach((one, k) => drawn[k]?.regions(one));
  }

  async function all() {
    if (game.payoffs[0].length * game.payoffs[0][0].length > 100) { list.replaceChildren(); return; }
    const found = await oops.guard(() => call("matrix", "equilibria", { game: spec() }));
    if (!found) return;
    [0, 1].forEach((k) => drawn[k]?.stars(found.equilibria.map((one) => one.policy[k])));
    const show = (p, k) => p.map((v, a) => [v, game.actions[k][a]]).filter(([v]) => v > 1e-9).map(([v, name]) => (v > 1 - 1e-9 ? name : `${name} ${fmt(v, 3)}`)).join(", ");
    list.replaceChildren(h("section", {}, h("h2", {}, `All equilibria (${found.count})`), table({
      columns: ["#", ...game.players, ...game.players.map((name) => `value to ${name}`), "nobody gains more than"],
      rows: found.equilibria.map((one, i) => [i + 1, show(one.policy[0], 0), show(one.policy[1], 1), ...one.value.map(tiny), one.upper]) }, `${found.status}.`)));
  }

  const learners = h("div");
  const rounds = h("input", { type: "number", min: 1, max: 100000, value: 2000 });
  learning.append(h("h2", {}, "Watch two learners"), h("p", { class: "note" }, "Each sees only its own actions and rewards. Their policies are drawn into the pictures above."),
    h("div", { class: "row" }, learners, field("Rounds", rounds), h("button", { type: "button", class: "main", onclick: watch }, "Play")), learnerOops, curve);

  async function watch() {
    clearInterval(timer);
    const found = await learnerOops.guard(() => call("matrix", "paths", { game: spec(), learner: kept.learner, rounds: +rounds.value }));
    if (!found) return;
    code.show({ Python: found.python });
    let k = 0;
    const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
    timer = setInterval(() => {
      k = quick ? found.rounds.length : Math.min(found.rounds.length, k + 4);
      found.last.forEach((path, seat) => drawn[seat]?.path(path.slice(0, k)));
      curve.show([{ name: "last policies", x: found.rounds.slice(0, k), y: found.curve.slice(0, k) }, { name: "average policies", x: found.rounds.slice(0, k), y: found.average_curve.slice(0, k) }]);
      if (k >= found.rounds.length) { clearInterval(timer); say(`NashConv ${fmt(found.curve.at(-1))} after ${found.rounds.at(-1)} rounds.`); }
    }, 40);
  }

  await oops.guard(async () => {
    const [{ games }, { learners: known }] = await Promise.all([call("matrix", "catalogue"), call("matrix", "learners")]);
    picker.append(...games.map((one) => h("option", { value: one.name }, one.title)));
    learners.replaceWith(field("Learner", select(known, kept.learner, (x) => { kept.learner = x; save(kept); })));
  });
  await oops.guard(async () => {
    game = await call("matrix", "open", { game: kept.game });
    if (kept.policy && kept.policy.some((p, k) => p.length !== game.actions[k].length)) kept.policy = null;
    await show();
  });
  if (!game) await change({ name: "rock-paper-scissors" });
  return () => clearInterval(timer);
}
