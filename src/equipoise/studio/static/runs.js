// Runs: list the run folders below the studio's folder, draw curves of those selected, stop and resume.
import { call, h, keep, put, restored, say, snippet, stop, trouble } from "/static/ui.js";
import { lines } from "/static/plot.js";

const EVERY = 2000;

export async function open(root, state, save) {
  const kept = restored({ runs: null }, state, { runs: "a list" });
  let listed = [], timer = 0, over = false;
  const oops = trouble(), acted = trouble(), rows = new Map(), body = h("tbody"), list = h("div", { class: "scroll" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["", "run", "state", ""].map((name) => h("th", { scope: "col" }, name)))), body)), pictures = h("div", { class: "pictures" }), code = snippet(), about = h("p", { class: "note", "aria-live": "polite" });
  const compare = h("a", { class: "button", target: "_blank", rel: "noopener" }, "Open the full report");
  root.append(h("div", { class: "side" }, h("h1", {}, "Runs"), about, oops, acted, list, compare), h("div", { class: "work" }, pictures), code);
  const drawn = new Map();

  async function refresh() {
    const begun = performance.now();
    const found = await oops.guard(() => call("runs", "list"));
    if (found) {
      listed = found.runs;
      const told = listed.length ? `${listed.length} runs${found.left_out ? ` (${found.left_out} more are not listed)` : ""}. Select the runs to compare.` : "This folder contains no runs yet. Create one with `equipoise play --run runs/first`, or on the Log page.";
      kept.runs ??= listed.filter((run) => !run.problem).slice(0, 1).map((run) => run.name);
      const gone = kept.runs.filter((name) => !listed.some((run) => run.name === name));
      put(about, told + (gone.length ? ` Not in this folder: ${gone.join(", ")}.` : ""));
      show();
      await curves();
    }
    // Searching the folder takes at most a tenth of the time.
    if (!over) timer = setTimeout(refresh, Math.max(EVERY, 9 * (performance.now() - begun)));
  }

  // A row stays the same element while its text changes: a button that is replaced cannot be clicked.
  function row(run) {
    const { name } = run, what = run.job ? "Stop" : !run.finished && !run.problem && run.idle ? "Resume" : "";
    if (!rows.has(name)) {
      const box = h("input", { type: "checkbox", "aria-label": `Show ${name}`, onchange: () => {
        kept.runs = box.checked ? [...kept.runs, name] : kept.runs.filter((one) => one !== name); curves(); } });
      const state = h("td"), act = h("td");
      rows.set(name, { box, state, act, line: h("tr", {}, h("td", {}, box), h("td", {}, name), state, act) });
    }
    const { box, state, act, line } = rows.get(name);
    Object.assign(box, { checked: kept.runs.includes(name), disabled: !!run.problem });
    put(state, run.finished ? run.status || run.state : run.state);
    if (act.textContent !== what) act.replaceChildren(what && h("button", { type: "button", "aria-label": `${what} ${name}`, onclick: () => acted.guard(() => ask(what, name)) }, what));
    return line;
  }

  async function ask(what, name) {
    if (what === "Stop") { const { job } = listed.find((run) => run.name === name) ?? {}; if (job) await stop(job); }
    else { await call("runs", "resume", { run: name }); say(`Resumed ${name}.`); }
  }

  function show() {
    for (const name of rows.keys()) if (!listed.some((run) => run.name === name)) rows.delete(name);
    keep(body, listed.map(row));
  }

  async function curves() {
    save(kept);
    const there = kept.runs.filter((name) => listed.some((run) => run.name === name && !run.problem));
    compare.hidden = !there.length;
    compare.href = `/report?${there.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`;
    if (!there.length) {
      pictures.replaceChildren(); drawn.clear();
      if (!listed.length) code.show({ python: 'import equipoise as eq\neq.dynamics.self_play(eq.dynamics.SelfPlay(rounds=1000), "runs/first")', command: "equipoise play --row omd --rounds 1000 --run runs/first" });
      return;
    }
    const found = await oops.guard(() => call("runs", "curves", { runs: there }));
    if (!found) return;
    for (const name of drawn.keys()) if (!(name in found.quantities)) { drawn.get(name).remove(); drawn.delete(name); }
    for (const [name, series] of Object.entries(found.quantities)) {
      if (!drawn.has(name)) { drawn.set(name, lines({ title: name.replaceAll("_", " "), xlabel: series[0].axis })); pictures.append(drawn.get(name)); }
      const figure = drawn.get(name), told = JSON.stringify(series);
      if (figure.dataset.told !== String(told.length) + told.slice(-400)) { figure.dataset.told = String(told.length) + told.slice(-400); figure.show(series); }
    }
    if (!drawn.size) pictures.replaceChildren(h("p", { class: "note" }, "These runs recorded no curves. See the report for their numbers."));
    else pictures.querySelectorAll(":scope > p").forEach((p) => p.remove());
    code.show(found);
  }

  await refresh();
  return () => { over = true; clearTimeout(timer); };
}
