// Log: drop a table of actions and rewards; see its coverage, the advice, and the bounds.
import { call, drop, facts, field, fmt, h, jobs, onJob, progressOf, restored, s, say, select, snippet, table, trouble, upload } from "/static/ui.js";

const ROLES = [["agent", "Agent"], ["time", "Time"], ["action", "Action"], ["reward", "Reward"], ["context", "Context"]];

export async function open(root, state, save) {
  let kept = restored({ file: null, columns: {}, run: null, agent: 0 }, state, { file: "a string", run: "a string" });
  let found = null, looks = 0, shown = null; // `shown` is the job whose advice is on the page
  const oops = trouble(), about = h("div"), roles = h("div", { class: "row" }), code = snippet();
  const advice = h("div", { class: "work" }), learn = h("button", { type: "button", class: "main", disabled: true, onclick: begin }, "Learn from this log");
  const progress = h("p", { class: "note", "aria-live": "polite" });
  root.append(h("div", { class: "side" }, h("h1", {}, "Log"),
    h("p", { class: "note" }, "Each row of a log holds the action and reward of one agent, or of all agents. The data stays on this machine."),
    drop("Drop a .csv, .parquet or .npz file", ".csv,.parquet,.npz", (file) => oops.guard(async () => use({ file: await upload(file), columns: {} }))),
    h("button", { type: "button", onclick: () => oops.guard(async () => use(await call("log", "example"))) }, "Try an example"),
    oops, roles, about, learn, progress), advice, code);

  async function use(next) {
    progress.textContent = "";
    shown = null;
    kept = { ...kept, run: null, ...next };
    advice.replaceChildren(h("p", { class: "note" }, "The advice appears here after learning."));
    await look();
  }

  function set(option, value) { kept.columns = { ...kept.columns, [option]: value || undefined }; look(); }

  async function look() {
    save(kept);
    const mine = ++looks;
    if (!kept.file) {
      code.show({ python: 'import equipoise as eq\nadvice = eq.advise(eq.offline.Log.read("log.csv"))\nprint(advice.status, advice.bound)', command: "equipoise offline log.csv" });
      return;
    }
    const seen = await oops.guard(() => call("log", "open", { file: kept.file, columns: kept.columns }));
    if (mine !== looks) return; // the columns have changed meanwhile
    if (!seen) { about.replaceChildren(); roles.replaceChildren(); learn.disabled = true; return; }
    const options = [["", "(none)"], ...seen.columns.map((name) => [name, name])];
    const same = roles.firstChild && roles.dataset.columns === JSON.stringify(seen.columns);
    roles.dataset.columns = JSON.stringify(seen.columns);
    // The same columns keep their lists, one of which may be open.
    if (same) roles.querySelectorAll("select, input").forEach((one, k) => { if (one !== document.activeElement) one.value = kept.columns[ROLES[k]?.[0] ?? "bins"] ?? ""; });
    else roles.replaceChildren(...(seen.columns.length ? ROLES.map(([role, text]) => field(`${text} column`, select(options, kept.columns[role] ?? "", (x) => { set(role, x); }))).concat(field("Bins for numeric actions", h("input", { type: "number", min: 2, max: 100, placeholder: "none", value: kept.columns.bins ?? "", onchange: (e) => set("bins", Math.round(+e.target.value)) }))) : []));
    learn.disabled = !seen.log;
    about.replaceChildren(h("h2", {}, kept.file), ...(seen.log ? [
      facts([["Samples", seen.log.samples], ["Agents", seen.log.agents.length], seen.log.contexts > 1 && ["Contexts", seen.log.contexts], ["Actions", seen.log.continuous ? "continuous" : [...new Set(seen.log.actions)].join(" or ")]]),
      ...seen.log.notes.map((note) => h("p", { class: "note" }, note)),
      seen.coverage && table(seen.coverage, "Coverage: how many of its actions each agent tried, and how often.")] : [h("p", { class: "error", role: "alert" }, seen.problem)]));
    if (seen.log) say(`${fmt(seen.log.samples)} samples of ${seen.log.agents.length} agents.`);
    if (!kept.run) code.show(seen);
  }

  async function begin() {
    const job = await oops.guard(() => call("log", "learn", { file: kept.file, columns: kept.columns }));
    if (job) { kept.run = job.run; save(kept); learn.disabled = true; }
  }

  const leave = onJob((job) => {
    // A page that was reloaded before it knew its run finds the run by the file.
    if (!kept.run && kept.file && job.title === `Learn from ${kept.file}`) { kept.run = job.run; save(kept); }
    if (!kept.run || job.run !== kept.run) return;
    progress.textContent = `${job.run}: ${progressOf(job)}`;
    if (job.state === "running") return;
    learn.disabled = false;
    if (job.state === "failed") { progress.textContent = job.error; return; }
    if (job.state === "stopped") { progress.textContent = `Stopped. Progress is saved in ${job.run}; resume it on the Runs page.`; return; }
    if (shown !== job.id) { shown = job.id; show(); } // a connection that returns tells of it again
  });

  async function show() {
    try { found = await call("log", "advice", { run: kept.run }); }
    catch (error) { progress.textContent = error.message; return; }
    if (!(kept.agent in found.agents)) kept.agent = 0;
    const tables = found.tables, strong = found.strength;
    advice.replaceChildren(
      h("section", {}, h("h2", {}, tables.advice ? "Advice" : "What the log shows"), ...`${found.status}.`.split("\n").map((text) => h("p", {}, text)),
        facts([typeof found.bound === "number" && ["Nobody gains more than", found.bound, found.learned ? "good" : "bad"], found.interval && [`Interval (${Math.round(found.level * 100)} %)`, found.interval.map((v) => fmt(v, 3)).join(" to ")], found.own_interval && ["Gap of the log's own policy", found.own_interval.map((v) => fmt(v, 3)).join(" to ")]]),
        tables.advice && table(tables.advice, "What each agent should play, what it earned in the log, and what it can expect."),
        tables["own play"] && table(tables["own play"], "The log's own play; this is not advice."),
        ...found.warnings.map((text) => h("p", { class: "note" }, text))),
      found.deviations ? whatIf() : "",
      tables.classes ? h("section", {}, h("h2", {}, "Structure"), table(tables.classes, "Classes of rewards and their held-out errors.")) : "",
      strong ? h("section", {}, h("h2", {}, "Interactions"), graph(strong), tables.interactions ? h("details", { class: "more" }, h("summary", {}, "As a table"), table(tables.interactions)) : "") : "");
    code.show(found);
    progress.textContent = `Saved in ${found.run}.`;
    say(`${found.status}.`);
  }

  // One agent deviates from the advice and always plays one action.
  function whatIf() {
    const picture = h("div");
    const draw = () => {
      save(kept);
      const rows = (found.actions[kept.agent] ?? []).map((name, a) => ({ name, gain: found.deviations.gain[kept.agent][a], low: found.deviations.lower[kept.agent][a], high: found.deviations.upper[kept.agent][a] }));
      const known = rows.filter((one) => typeof one.gain === "number");
      const low = Math.min(0, ...known.map((one) => one.low)), high = Math.max(0, ...known.map((one) => one.high)), at = (v) => 100 + (265 * (v - low)) / (high - low || 1);
      const height = 34 * rows.length + 40;
      picture.replaceChildren(h("figure", { class: "picture small" }, s("svg", { viewBox: `0 0 380 ${height}`, role: "img", "aria-label": known.map((one) => `always ${one.name}: gain ${fmt(one.gain, 3)}, from ${fmt(one.low, 3)} to ${fmt(one.high, 3)}`).join("; ") },
        s("line", { class: "axis", x1: at(0), x2: at(0), y1: 4, y2: height - 26 }), s("text", { x: at(0), y: height - 8, "text-anchor": "middle", class: "soft" }, "gain 0"),
        rows.map((one, k) => { const y = 22 + 34 * k; return [s("text", { x: 90, y: y + 4, "text-anchor": "end" }, one.name.length > 13 ? `${one.name.slice(0, 12)}…` : one.name), typeof one.gain === "number" ? [s("line", { class: "line c0", x1: at(one.low), x2: at(one.high), y1: y, y2: y }), s("circle", { class: "c0", fill: "var(--c)", cx: at(one.gain), cy: y, r: 6 })] : s("text", { x: 105, y: y + 4, class: "soft" }, "not in the log")]; }))),
      table({ columns: ["always", "estimated gain", "from", "to"], rows: rows.map((one) => [one.name, one.gain, one.low, one.high].map((v) => (v === "NaN" ? null : v))) }));
    };
    const box = h("section", {}, h("h2", {}, "What if one agent deviates from the advice?"),
      field("Agent", select(found.agents.map((name, i) => [String(i), name]), String(kept.agent), (x) => { kept.agent = +x; draw(); })),
      picture, h("p", { class: "note" }, "All intervals hold simultaneously, for all agents and deviations."));
    draw();
    return box;
  }

  // Agents in a circle; a line leads from an agent's action to another agent's reward.
  function graph(strength) {
    const n = strength.length, most = Math.max(0, ...strength.flat()), at = (i) => [180 + 130 * Math.sin((2 * Math.PI * i) / n), 165 - 130 * Math.cos((2 * Math.PI * i) / n)];
    const arcs = !most ? [] : strength.flatMap((row, i) => row.map((value, j) => [value, i, j])).filter(([value, i, j]) => i !== j && value > most * 0.02);
    if (!arcs.length) return h("p", { class: "note" }, "No agent's action has an effect on another agent's reward that the log shows.");
    return h("figure", { class: "picture small" }, s("svg", { viewBox: "0 0 360 330", role: "img", "aria-label": "Interaction graph; the table has its numbers" },
      arcs.map(([value, i, j]) => { const [a, b] = [at(j), at(i)], m = [(a[0] + b[0]) / 2 + (b[1] - a[1]) * 0.12, (a[1] + b[1]) / 2 - (b[0] - a[0]) * 0.12];
        return s("path", { class: "arc", opacity: 0.25 + 0.75 * (value / most), "stroke-width": 1 + (5 * value) / most, d: `M${a}Q${m} ${b}` }, s("title", {}, `effect of ${found.agents[j]}'s action on ${found.agents[i]}'s reward: ${fmt(value, 3)}`)); }),
      found.agents.slice(0, n).map((name, i) => [s("circle", { class: "node", cx: at(i)[0], cy: at(i)[1], r: 8 }), n <= 20 && s("text", { x: 180 + (at(i)[0] - 180) * 1.16, y: 169 + (at(i)[1] - 165) * 1.16, "text-anchor": "middle" }, name)])),
    h("figcaption", {}, "A thicker line means a larger effect of one agent's action on another agent's reward. Point at a line to see its value."));
  }

  await look();
  const told = [...jobs.values()].some((job) => job.run === kept.run);
  if (kept.run && !told) await show();
  return leave;
}
