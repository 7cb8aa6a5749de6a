// Matrix: type a two-player game, see its equilibria, drag policies and read their certificates.
import { call, drop, facts, field, fmt, h, newest, range, restored, say, select, snippet, table, tiny, trouble, upload } from "/static/ui.js";
import { lines, simplex } from "/static/plot.js";

const CONCEPTS = [["nash", "Nash equilibrium"], ["ce", "Best correlated equilibrium"], ["cce", "Best coarse correlated equilibrium"]];
const OBJECTIVES = [["weights", "Weighted sum"], ["welfare", "Welfare (sum)"], ["egalitarian", "Worse-off player"], ["entropy", "Entropy (most random)"]];

const SAME = "The same in Python and as a command";

const isNumber = (cell) => /^[-−+]?\.?\d/.test(cell);
// How to recognise and split the cells of a pasted table; brackets are dropped around plain numbers.
const CUTS = [
  [/\(/, (line) => [...line.matchAll(/\(([^)]*)\)|[^\s(),]+/g)].map((found) => found[1] ?? found[0])],
  [/^[^[]*(\t|\s{2,}|;|\|)/, (line) => line.split(/\t|\s{2,}|;|\|/)],
  [/^[^[]*\S,\S+\s+\S+,\S/, (line) => line.split(/\s+/)], // 3,1 0,0
  [/./, (line) => line.replace(/[[\]]/g, "").split(/\s*,\s*|\s+/)]];

/** Read the game in a pasted table with the first way of splitting that makes all cells alike. */
function gameOf(pasted) {
  const text = pasted.replace(/(?:\w+\.)?array\((\[[^]*\])[^]*\)/, "$1");
  if (/\[\s*\[\s*\[/.test(text)) { // one table for each player, as Python prints it
    const rows = text.match(/\[[^[\]]*\]/g).map((row) => row.slice(1, -1).trim().split(/[\s,]+/)), half = rows.length / 2;
    return { cells: rows.slice(0, half).map((row, i) => row.map((value, j) => `${value}, ${rows[i + half]?.[j]}`)) };
  }
  const lines = text.replace(/\]\s*,\s*\[/g, "]\n[").split("\n").map((line) => line.trim()).filter(Boolean);
  const tables = CUTS.filter(([looks]) => lines.some((line) => looks.test(line))).map(([, cut]) => lines.map((line) => cut(line).map((cell) => cell.trim()).filter(Boolean)));
  const parts = tables.map((rows) => {
    const head = rows[0]?.some(isNumber) ? [] : rows[0], body = rows.slice(head?.length ? 1 : 0);
    const names = body.map((row) => (isNumber(row[0]) ? null : row[0]));
    return { head, names, cells: body.map((row, i) => row.slice(names[i] === null ? 0 : 1)) };
  });
  const same = (list) => new Set(list).size === 1;
  const fits = ({ cells }) => same(cells.map((row) => row.length)) && same(cells.flat().map((cell) => cell.split(/[,\s]+/).length));
  const { head, names, cells } = parts.find(fits) ?? parts.at(-1) ?? { cells: [] };
  if (!head?.length && !names?.some((name) => name !== null)) return { cells };
  const columns = (cells[0] ?? []).map((_, j) => (head.length ? head.slice(-cells[0].length)[j] ?? "" : `column ${j + 1}`));
  return { cells, actions: [names.map((name, i) => name ?? `row ${i + 1}`), columns] };
}

export async function open(root, state, save) {
  let kept = restored({ game: { name: "rock-paper-scissors" }, concept: "nash", objective: "weights", weight: 0.5, policy: null, learner: "omd", rounds: 2000 }, state, { policy: "a list" });
  if (!CONCEPTS.some(([key]) => key === kept.concept)) throw new Error(`concept: expected one of ${CONCEPTS.map(([key]) => key).join(", ")}; found ${kept.concept}`);
  let game = null, timer = 0;
  const oops = trouble(), learnerOops = trouble();
  const editor = h("div", { class: "scroll" }), answer = h("div"), dragged = h("div");
  const pictures = h("div", { class: "pictures" }), sliders = h("div"), list = h("div"), code = snippet(), own = snippet(SAME), played = snippet(SAME);
  const curve = lines({ title: "NashConv of the learners", xlabel: "round", ylabel: "NashConv" });
  const learning = h("section", { hidden: true });
  const picker = select([["", "My own game"]], "", (name) => name && change({ name }));
  const weight = range("Weight of the first player", { min: 0, max: 1, step: 0.01, value: kept.weight, oninput: (x) => { kept.weight = x; solve(); } });
  const objective = field("Objective", select(OBJECTIVES, kept.objective, (x) => { kept.objective = x; solve(); }));
  const paste = h("textarea", { rows: 4, placeholder: "3, 1   0, 0\n0, 0   1, 3", "aria-label": "Payoffs to paste" });

  root.append(
    h("div", { class: "side" },
      h("h1", {}, "Matrix"),
      h("p", { class: "note" }, "One number in every cell makes a zero-sum game; the number is the payoff of the row player. Two numbers, such as 3, 1, are the payoffs of row and column."),
      field("Game", picker), oops, editor,
      h("div", { class: "row" }, ...[["Add row", () => resize(1, 0)], ["Add column", () => resize(0, 1)], ["Delete row", () => resize(-1, 0)], ["Delete column", () => resize(0, -1)]].map(([text, act]) => h("button", { type: "button", onclick: act }, text))),
      h("details", { class: "more" }, h("summary", {}, "Paste a table"), paste,
        h("button", { type: "button", onclick: () => pasted() }, "Use this table")),
      drop("Open a .nfg or .csv file", ".nfg,.csv,.npz", (file) => oops.guard(async () => change({ file: await upload(file) }))),
      h("div", { class: "row" }, field("Solution concept", select(CONCEPTS, kept.concept, (x) => { kept.concept = x; solve(); })), objective), weight),
    h("div", { class: "work" }, answer, h("section", {}, h("h2", {}, "Your own policies"),
      h("p", { class: "note" }, "Drag a dot or a slider. The certificate shows how much each player could gain by deviating."), pictures, sliders, dragged, own), list, learning));

  root.append(code);
  // Ask about the game on the page; null if it has changed when the answer comes.
  const ask = async (name, more = {}) => {
    const asked = game, found = await call("matrix", name, { game: kept.game, ...more });
    return asked === game ? found : null;
  };

  let changes = 0;
  async function change(next) {
    clearInterval(timer);
    const mine = ++changes;
    await oops.guard(async () => {
      const found = await call("matrix", "open", { game: next });
      if (mine !== changes) return;
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
    // As typed, or with all digits: cells are read again when another cell changes.
    const text = (i, j) => kept.game.cells?.[i][j] ?? (game.zero_sum ? a[i][j] : `${a[i][j]}, ${b[i][j]}`);
    const shape = game.actions.map((names) => names.length).join(), values = [...game.actions[1], ...game.actions[0].flatMap((name, i) => [name, ...game.actions[1].map((_, j) => text(i, j))])];
    if (editor.dataset.shape === shape) { // keep the focus, and what is being typed
      editor.querySelectorAll("input").forEach((input, k) => { if (input !== document.activeElement) input.value = values[k]; });
      return;
    }
    editor.dataset.shape = shape;
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

  const pasted = () => oops.guard(() => change(gameOf(paste.value)));

  const solve = newest(() => oops.guard(async () => {
    objective.hidden = kept.concept === "nash";
    weight.hidden = kept.concept === "nash" || kept.objective !== "weights";
    save(kept);
    const objectiveOf = kept.objective === "weights" ? [kept.weight, 1 - kept.weight] : kept.objective;
    const found = await ask("solve", { concept: kept.concept, objective: kept.concept === "nash" ? null : objectiveOf });
    if (!found) return;
    const names = game.players;
    const unfolded = answer.querySelector("details")?.open;
    answer.replaceChildren(
      h("h2", {}, CONCEPTS.find(([key]) => key === kept.concept)[1]),
      facts([[`Value to ${names[0]}`, tiny(found.value[0])], [`Value to ${names[1]}`, tiny(found.value[1])],
        ["Nobody gains more than", found.certificate.max_upper, found.solved ? "good" : "bad"]]),
      found.policy ? policies(found.policy) : joint(found.joint),
      h("details", { class: "more", open: unfolded }, h("summary", {}, "Certificate"), table(found.certificate.table, `${found.status}. Method: ${found.certificate.method}.`)));
    code.show(found, found.file && h("a", { download: "game.nfg", href: URL.createObjectURL(new Blob([`${found.file}\n`])) }, "Download game.nfg"));
    // Your own policies begin at the equilibrium; a correlated one is no pair of policies.
    if (!kept.policy) { kept.policy = found.policy?.map((p) => [...p]) ?? uniform(); point(); certify(); }
    say(`Nobody gains more than ${fmt(found.certificate.max_upper)}.`);
  }));

  function policies(found) {
    const longest = Math.max(...game.actions.map((names) => names.length));
    return h("div", { class: "pair" }, found.map((p, k) => table({ columns: [game.players[k], "probability"], rows: p.map((v, a) => [game.actions[k][a], v]).filter(([, v]) => longest < 13 || v > 1e-9) })));
  }

  function joint(found) {
    return h("div", { class: "heat" }, table({ columns: ["", ...game.actions[1]], rows: found.map((row, i) => [game.actions[0][i], ...row]) }, "Probability of each pair of actions."));
  }

  const drawn = [null, null];
  const uniform = () => game.actions.map((names) => names.map(() => 1 / names.length));
  function draw() {
    pictures.replaceChildren();
    game.actions.forEach((names, k) => {
      drawn[k] = names.length === 2 || names.length === 3 ? simplex({ title: `Policy of ${game.players[k]}`, actions: names, replies: game.actions[1 - k], onDrag: (p) => { kept.policy ??= uniform(); kept.policy[k] = p; moved(); } }) : null;
      if (drawn[k]) pictures.append(drawn[k]);
    });
    const policy = kept.policy ?? uniform();
    sliders.replaceChildren(...(Math.max(...game.actions.map((n) => n.length)) > 12 ? [] : [h("div", { class: "pictures" }, game.actions.map((names, k) => h("fieldset", {}, h("legend", {}, game.players[k]),
      names.map((name, a) => { const r = range(name, { min: 0, max: 1, step: 0.01, value: policy[k][a], show: (v) => fmt(v, 3), oninput: (x) => slide(k, a, x) }); r.dataset.at = `${k}-${a}`; return r; }))))]));
    learning.hidden = !game.zero_sum;
    duel.href = `#duel:${encodeURIComponent(JSON.stringify({ game: kept.game }))}`;
    point();
  }

  function slide(k, a, x) {
    kept.policy ??= uniform();
    const p = kept.policy[k], rest = 1 - p[a];
    kept.policy[k] = p.map((v, b) => (b === a ? x : rest > 1e-9 ? (v * (1 - x)) / rest : (1 - x) / (p.length - 1 || 1)));
    if (kept.policy[k].length === 1) kept.policy[k] = [1];
    moved();
  }

  function point() {
    (kept.policy ?? uniform()).forEach((p, k) => {
      drawn[k]?.point(p);
      p.forEach((v, a) => sliders.querySelector(`[data-at="${k}-${a}"]`)?.set(v));
    });
  }
  const moved = () => { point(); certify(); };

  const certify = newest(async () => {
    if (!kept.policy) return;
    save(kept);
    const found = await oops.guard(() => ask("certify", { policy: kept.policy }));
    if (!found || found.gains.length !== 2) return;
    dragged.replaceChildren(facts([...game.players.map((name, k) => [`${name} could gain`, found.gains[k], found.gains[k] > 1e-6 ? "bad" : "good"]), ["NashConv", found.nash_conv], ...game.players.map((name, k) => [`Value to ${name}`, tiny(found.value[k])])]));
    own.show(found);
    say(`NashConv of your policies: ${fmt(found.nash_conv)}.`);
  });

  async function replies() {
    const found = await oops.guard(() => ask("replies"));
    found?.regions.forEach((one, k) => drawn[k]?.regions(one));
  }

  async function all() {
    if (game.payoffs[0].length * game.payoffs[0][0].length > 100) { list.replaceChildren(h("p", { class: "note" }, "All equilibria are listed only for games with at most 100 cells.")); return; }
    const found = await oops.guard(() => ask("equilibria"));
    if (!found) return;
    [0, 1].forEach((k) => drawn[k]?.stars(found.equilibria.map((one) => one.policy[k])));
    const every = snippet(SAME);
    const show = (p, k) => p.map((v, a) => [v, game.actions[k][a]]).filter(([v]) => v > 1e-9).map(([v, name]) => (v > 1 - 1e-9 ? name : `${name} ${fmt(v, 3)}`)).join(", ");
    list.replaceChildren(h("section", {}, h("h2", {}, `All equilibria (${found.count})`), table({
      columns: ["#", ...game.players, ...game.players.map((name) => `value to ${name}`), "nobody gains more than"],
      rows: found.equilibria.map((one, i) => [i + 1, show(one.policy[0], 0), show(one.policy[1], 1), ...one.value.map(tiny), one.upper]) }, `${found.status}.`, { class: "stack" }), every));
    every.show(found);
  }

  const learners = h("div"), duel = h("a", {}, "Play it yourself on the Duel page");
  const rounds = h("input", { type: "number", min: 1, max: 100000, value: kept.rounds, onchange: (e) => { kept.rounds = Math.round(+e.target.value); save(kept); } });
  learning.append(h("h2", {}, "Watch two learners"), h("p", { class: "note" }, "Each learner sees its own rewards. Optimistic OMD and regret matching+ also see what their other actions would have earned. The figures above show the learners' policies. ", duel, "."),
    h("div", { class: "row" }, learners, field("Rounds", rounds), h("button", { type: "button", class: "main", onclick: watch }, "Play")), learnerOops, curve, played);

  async function watch() {
    clearInterval(timer);
    const found = await learnerOops.guard(() => ask("paths", { learner: kept.learner, rounds: kept.rounds }));
    if (!found) return;
    played.show(found);
    let k = 0;
    const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
    timer = setInterval(() => {
      k = quick ? found.rounds.length : Math.min(found.rounds.length, k + 4);
      found.last.forEach((path, seat) => drawn[seat]?.path(path.slice(0, k)));
      curve.show([{ name: "last policies", x: found.rounds.slice(0, k), y: found.curve.slice(0, k) }, { name: "average policies", x: found.rounds.slice(0, k), y: found.average_curve.slice(0, k) }]);
      if (k >= found.rounds.length) { clearInterval(timer); say(`NashConv ${fmt(found.curve.at(-1))} after ${found.rounds.at(-1)} rounds.`); }
    }, 40);
  }

  const [{ games }, { learners: known }] = await Promise.all([call("matrix", "catalogue"), call("matrix", "learners")]);
  picker.append(...games.map((one) => h("option", { value: one.name }, one.title)));
  learners.replaceWith(field("Learner", select(known, kept.learner, (x) => { kept.learner = x; save(kept); })));
  game = await call("matrix", "open", { game: kept.game });
  const fits = kept.policy?.length === 2 && kept.policy.every((p, k) => p?.length === game.actions[k].length);
  if (kept.policy && !fits) throw new Error("policy: expected one probability for each action of both players");
  await show();
  return () => clearInterval(timer);
}
