// Runs: the run folders below the studio's folder; curves of those that are chosen, live; stop and resume.
import { call, facts, h, s, say, snippet, stop, table, trouble } from "/static/ui.js";
import { lines } from "/static/plot.js";

const EVERY = 2000;

export async function open(root, state, save) {
  const kept = { runs: null, ...state };
  let listed = [], timer = 0, over = false;
  const oops = trouble(), list = h("div", { class: "scroll" }), pictures = h("div", { class: "pictures" }), code = snippet(), about = h("p", { class: "note", "aria-live": "polite" });
  const compare = h("a", { class: "button", target: "_blank", rel: "noopener" }, "Open the full report");
  root.append(h("div", { class: "side" }, h("h1", {}, "Runs"), about, oops, list, compare, code), h("div", { class: "work" }, pictures));
  const drawn = new Map();

  async function refresh() {
    const found = await oops.guard(() => call("runs", "list"));
    if (found) {
      listed = found.runs;
      about.textContent = listed.length ? `${listed.length} runs${found.left_out ? `, and ${found.left_out} more that are not listed` : ""}. Choose those to compare.` : "There are no runs below this folder yet. `equipoise play --run runs/first` makes one, and so does the room Log.";
      kept.runs ??= listed.filter((run) => !run.problem).slice(0, 1).map((run) => run.name);
      kept.runs = kept.runs.filter((name) => listed.some((run) => run.name === name));
      show();
      await curves();
    }
    if (!over) timer = setTimeout(refresh, EVERY);
  }

  function show() {
    const focused = document.activeElement?.dataset?.run;
    const rows = listed.map((run) => {
      const box = h("input", { type: "checkbox", checked: kept.runs.includes(run.name), disabled: run.problem, "aria-label": `Show ${run.name}`, onchange: (e) => {
        kept.runs = e.target.checked ? [...kept.runs, run.name] : kept.runs.filter((name) => name !== run.name); curves(); } });
      box.dataset.run = run.name;
      const act = run.job ? h("button", { type: "button", onclick: () => oops.guard(() => stop(run.job)) }, "Stop") : !run.finished && !run.problem && run.quiet > 5 ? h("button", { type: "button", onclick: () => oops.guard(async () => { await call("runs", "resume", { run: run.name }); say(`Resumed ${run.name}.`); }) }, "Resume") : "";
      return h("tr", {}, h("td", {}, box), h("td", {}, run.name), h("td", {}, run.finished ? run.status || run.state : run.state), h("td", {}, act));
    });
    list.replaceChildren(h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["", "run", "state", ""].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
    if (focused) [...list.querySelectorAll("input")].find((box) => box.dataset.run === focused)?.focus();
  }

  async function curves() {
    save(kept);
    compare.hidden = !kept.runs.length;
    compare.href = `/report?${kept.runs.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`;
    if (!kept.runs.length) { pictures.replaceChildren(); drawn.clear(); return; }
    const found = await oops.guard(() => call("runs", "curves", { runs: kept.runs }));
    if (!found) return;
    for (const name of drawn.keys()) if (!(name in found.quantities)) { drawn.get(name).remove(); drawn.delete(name); }
    for (const [name, series] of Object.entries(found.quantities)) {
      if (!drawn.has(name)) { drawn.set(name, lines({ title: name.replaceAll("_", " "), xlabel: series[0].axis })); pictures.append(drawn.get(name)); }
      const figure = drawn.get(name), told = JSON.stringify(series);
      if (figure.dataset.told !== String(told.length) + told.slice(-400)) { figure.dataset.told = String(told.length) + told.slice(-400); figure.show(series); }
    }
    if (!drawn.size) pictures.replaceChildren(h("p", { class: "note" }, "These runs recorded no curves. The report has their numbers."));
    else pictures.querySelectorAll(":scope > p").forEach((p) => p.remove());
    code.show({ Python: found.python, Command: found.command });
  }

  await refresh();
  return () => { over = true; clearTimeout(timer); };
}
