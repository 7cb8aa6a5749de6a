// City: change demand, capacities or tolls of a road network and see the flows; equilibria of crowds.
import { call, drop, facts, field, fmt, h, jobs, keep, newest, onJob, range, restored, s, say, select, snippet, start, table, trouble, upload } from "/static/ui.js";
import { scatter } from "/static/plot.js";

// From empty to over capacity: light blue over yellow to dark red. Lightness differs, too, for colour-blind readers.
const SCALE = [[0, [120, 190, 230]], [0.6, [90, 140, 190]], [1, [240, 180, 40]], [1.5, [205, 90, 20]], [2.5, [120, 20, 40]]];
function colour(load) {
  const k = Math.max(1, SCALE.findIndex(([at]) => at >= load));
  const [[a, from], [b, to]] = load >= SCALE.at(-1)[0] ? [SCALE.at(-2), SCALE.at(-1)] : [SCALE[k - 1], SCALE[k]];
  const t = Math.min(1, Math.max(0, (load - a) / (b - a)));
  return `rgb(${from.map((v, i) => Math.round(v + t * (to[i] - v))).join(" ")})`;
}

export async function open(root, state, save) {
  // `search` is the starting time of the search for tolls that the page waits for, `found` its result.
  let kept = restored({ kind: "network", game: { name: "grid-city" }, demand: 1, tolls: {}, capacities: {}, link: null, links: 3, search: null, found: null, crowd: "two-roads", parameters: {} },
    state, { link: "a number", search: "a number", found: "an object" });
  let map = null, last = null, catalogue = null, demand = null, most = null;
  const searches = new Map();
  const oops = trouble(), answer = h("div"), picture = h("figure", { class: "picture" }), code = snippet();
  const controls = h("div", { class: "side" }), chosen = h("fieldset", { hidden: true }), more = h("div", { "aria-live": "polite" }), earlier = h("div"), list = h("div", { class: "row" });
  const points = scatter({ title: "Equilibria", xlabel: "aggregate", ylabel: "mean welfare" });
  const side = h("div", { class: "side" }, h("h1", {}, "City"),
    field("Model", select([["network", "Road network on a map"], ["crowd", "Crowd and its equilibria"]], kept.kind, (x) => { kept.kind = x; oops.guard(setUp); })),
    oops, controls, earlier);
  root.append(side, h("div", { class: "work" }, answer, picture, chosen, points, more), code);

  async function setUp() {
    const roads = kept.kind === "network";
    picture.hidden = !roads; points.hidden = roads; chosen.hidden = true; earlier.hidden = !roads; more.replaceChildren(); answer.replaceChildren();
    roads ? await setUpRoads() : await setUpCrowd();
  }

  // Roads.
  async function setUpRoads() {
    let net = null;
    demand = range("Demand", { min: 0.2, max: 3, step: 0.02, value: kept.demand, show: (x) => `${fmt(x, 3)} ×`, oninput: (x) => { kept.demand = x; changed(); } });
    most = h("input", { type: "number", min: 1, max: 20, value: kept.links, onchange: (e) => { kept.links = +e.target.value; save(kept); } });
    controls.replaceChildren(
      field("Network", select([...catalogue.network.map((one) => [one.name, one.title]), ["", "From files"]], kept.game.name ?? "", (name) => name && change({ name }))),
      drop("Or open two files, .tntp or .csv: the network and its trips", ".tntp,.csv,.npz", (files) => oops.guard(async () => {
        const trips = (name) => /trips/i.test(name); // files with trips are opened last
        for (const file of files.sort((a, b) => trips(a.name) - trips(b.name))) {
          const name = await upload(file);
          if (name.endsWith(".npz")) { await change({ file: name }); return; }
          if (!net) { net = name; if (files.length === 1) { say(`${name} is the network; now open the trips.`); more.replaceChildren(h("p", { class: "note" }, `${name} is the network. Now open the file with its trips.`)); } }
          else { const first = net; net = null; more.replaceChildren(); await change({ file: first, trips: name }); }
        }
      }), true),
      demand,
      h("div", { class: "row" }, field("Most links with a toll", most),
        h("button", { type: "button", class: "main", onclick: bestTolls }, "Find the best tolls")),
      h("div", { class: "row" }, h("button", { type: "button", onclick: () => { kept = { ...kept, tolls: {}, capacities: {}, demand: 1, search: null, found: null }; oops.guard(setUp); } }, "Undo all changes"),
        h("button", { type: "button", onclick: anarchy }, "Compare with the optimum")));
    map = await call("city", "open", { game: kept.game });
    draw();
    if (kept.found) await showFound();
    await solve();
  }

  /** Clear the result of the last search, since the map no longer shows it after a change, and wait for none. */
  function changed() {
    kept.search = null;
    if (kept.found) { kept.found = null; more.replaceChildren(); }
    solve();
  }

  async function change(game) {
    const before = kept;
    await oops.guard(async () => {
      kept = { ...kept, game, demand: 1, tolls: {}, capacities: {}, link: null, search: null, found: null };
      try { await setUp(); } catch (error) { kept = before; await setUp(); throw error; }
    });
  }

  const links = [];
  function draw() {
    const there = [...new Set([...map.tails, ...map.heads])].map((n) => map.positions[n]); // node numbers may have gaps
    const xs = there.map((p) => p[0]), ys = there.map((p) => p[1]);
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const width = 720, size = Math.min(1, Math.max(0.4, (y1 - y0) / (x1 - x0 || 1))), height = width * size;
    const at = (n) => [24 + ((map.positions[n][0] - x0) / (x1 - x0 || 1)) * (width - 48), 24 + ((y1 - map.positions[n][1]) / (y1 - y0 || 1)) * (height - 48)];
    const thick = Math.max(2, Math.min(9, 110 / Math.sqrt(map.links)));
    links.length = 0;
    map.tails.forEach((tail, l) => {
      const [a, b] = [at(tail), at(map.heads[l])], d = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1, off = thick * 0.75;
      const n = [(-(b[1] - a[1]) / d) * off, ((b[0] - a[0]) / d) * off]; // each direction on its own side
      const path = s("path", { class: "link", d: `M${a[0] + n[0]},${a[1] + n[1]}L${b[0] + n[0]},${b[1] + n[1]}`, "stroke-width": thick, stroke: "var(--line)" }, s("title"));
      path.addEventListener("click", () => choose(l));
      links.push(path);
    });
    const used = [...new Set([...map.tails, ...map.heads])], nodes = used.length > 400 ? [] : used.map((n) => s("circle", { class: "node", cx: at(n)[0], cy: at(n)[1], r: Math.min(5, thick) }));
    const halo = s("path", { class: "halo", "stroke-width": thick * 2.6 });
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": map.about }, halo, ...links, ...nodes);
    picture.replaceChildren(svg, h("figcaption", {}, h("ul", { class: "legend" }, h("li", {}, "Flow / capacity:"), [0, 0.5, 1, 1.5, 2].map((x) => { const swatch = h("span", { class: "swatch" }); swatch.style.background = colour(x); return h("li", {}, swatch, fmt(x), x === 2 ? " or more" : ""); })),
      h("p", { class: "note" }, `${map.about}. Click a link on the map, or enter its number: `, h("input", { type: "number", min: 0, max: map.links - 1, value: kept.link ?? "", "aria-label": "Link number", onchange: (e) => choose(+e.target.value) }))));
    picture.halo = halo;
    if (kept.link !== null) choose(kept.link);
  }

  function choose(l) {
    if (!(l >= 0 && l < map.links)) return;
    kept.link = l; save(kept);
    picture.halo.setAttribute("d", links[l].getAttribute("d"));
    const first = map.capacity[l], dearest = Math.max(1e-9, ...map.free_flow) * 4;
    chosen.hidden = false;
    chosen.replaceChildren(h("legend", {}, `Link ${l}, from node ${map.tails[l]} to node ${map.heads[l]}`),
      range("Toll", { min: 0, max: Number(Math.max(dearest, 2 * (kept.tolls[l] ?? 0)).toPrecision(3)), step: dearest / 400, value: kept.tolls[l] ?? 0, oninput: (x) => { x ? (kept.tolls[l] = x) : delete kept.tolls[l]; changed(); } }),
      range("Capacity", { min: first * 0.1, max: first * 3, step: first / 100, value: kept.capacities[l] ?? first, oninput: (x) => { kept.capacities[l] = x; changed(); } }),
      h("p", { class: "note" }, last ? `Flow ${fmt(last.flows[l])}, ${fmt(last.load[l] * 100, 3)} % of capacity.` : ""));
  }

  const body = () => ({ game: kept.game, demand: kept.demand, tolls: kept.tolls, capacities: kept.capacities });
  const solve = newest(() => oops.guard(async () => {
    save(kept);
    const found = await call("city", "solve", body());
    if (kept.kind !== "network" || found.flows.length !== map.links) return;
    last = found;
    found.load.forEach((load, l) => {
      links[l].setAttribute("stroke", colour(load));
      links[l].firstChild.textContent = `link ${l}: flow ${fmt(found.flows[l])}, ${fmt(load * 100, 3)} % of capacity${found.tolls[l] ? `, toll ${fmt(found.tolls[l])}` : ""}`;
      links[l].classList.toggle("chosen", Boolean(found.tolls[l]));
    });
    answer.replaceChildren(facts([["Total travel cost", found.total_cost], ["Mean cost of a trip", found.mean_cost], ["Tolls paid", found.revenue],
      ["Bound on the relative gap", found.relative_gap, found.solved ? "good" : "bad"], ["No traveller saves more than", found.max_upper, found.solved ? "good" : "bad"]]));
    code.show(found);
    const note = chosen.querySelector(".note");
    if (note && kept.link !== null) note.textContent = `Flow ${fmt(found.flows[kept.link])}, ${fmt(found.load[kept.link] * 100, 3)} % of capacity.`;
    say(`Total cost ${fmt(found.total_cost)}; no traveller saves more than ${fmt(found.max_upper)}.`);
  }));

  /** The two ends of an interval, or one number where they read alike. */
  const between = (low, high) => [...new Set([fmt(low, 6), fmt(high, 6)])].join(" to ");

  async function anarchy() {
    const found = await oops.guard(() => call("city", "anarchy", body()));
    if (found) tell(found, h("h2", {}, "Without tolls"), facts([["Price of anarchy", between(found.lower, found.upper)], ["Total cost of the optimum", found.optimum]]));
  }

  /** Show a further result and the code that computes it. */
  function tell(found, ...parts) {
    const same = snippet("The same in Python and as a command");
    same.show(found);
    more.replaceChildren(...parts, same);
  }

  async function bestTolls() {
    const asked = { ...body(), tolls: null, links: kept.links }, before = JSON.stringify(body());
    const job = await oops.guard(async () => { await call("city", "toll_code", asked); return start("city", "tolls", { ...asked, title: "Best tolls" }); });
    if (!job || JSON.stringify(body()) !== before) return; // after a change, the result is only listed
    kept.search = job.started; save(kept);
    if (jobs.has(job.id)) listen(jobs.get(job.id)); // it may have ended before the answer arrived
  }

  async function showFound() {
    const found = kept.found, asked = { ...body(), links: kept.links };
    tell(await call("city", "toll_code", asked), h("h2", {}, "Tolls found"), facts([["Total cost before", found.before], ["Total cost with these tolls", found.total_cost], ["Lower bound for any tolls", found.lower_bound], ["Share of the possible saving", found.saved]]),
      table({ columns: ["link", "from", "to", "toll"], rows: Object.entries(found.tolls ?? {}).map(([l, toll]) => [+l, map.tails[l], map.heads[l], toll]) }, "Links with tolls are dotted on the map."));
  }

  // Searches continue when the page is closed; every page lists their results.
  function listen(job) {
    if (job.room !== "city") return;
    if (job.state === "done" && !searches.has(job.started)) {
      searches.set(job.started, h("button", { type: "button", onclick: () => use(job) }, `${job.request.game.name ?? job.request.game.file}, ${job.request.links} link${job.request.links === 1 ? "" : "s"}: total cost ${fmt(job.result.total_cost)}`));
      if (!earlier.firstChild) earlier.append(h("h2", {}, "Tolls found so far"), list);
      keep(list, [...searches.values()]);
    }
    if (job.started !== kept.search || job.state === "running") return;
    if (job.state === "done") use(job);
    else { kept.search = null; save(kept); more.replaceChildren(h("p", { class: "note" }, `${job.title}: ${job.error || job.state}.`)); }
  }

  function use({ request, result }) {
    const { game, capacities, links } = request;
    const same = map && kept.kind === "network" && JSON.stringify(game) === JSON.stringify(kept.game);
    kept = { ...kept, kind: "network", game, demand: request.demand, capacities, links, tolls: result.tolls, search: null, found: result };
    // The controls of the same network stay, with their focus.
    oops.guard(same ? async () => {
      demand.set(kept.demand); most.value = kept.links;
      if (kept.link !== null) choose(kept.link);
      await showFound(); await solve();
    } : setUp);
  }

  // Crowds.
  async function setUpCrowd() {
    const entry = catalogue.aggregative.find((one) => one.name === kept.crowd) ?? catalogue.aggregative[0];
    controls.replaceChildren(field("Crowd", select(catalogue.aggregative.map((one) => [one.name, one.title]), entry.name, (x) => { kept.crowd = x; kept.parameters = {}; oops.guard(setUp); })),
      h("p", { class: "note" }, entry.source),
      ...Object.entries(entry.parameters).map(([name, usual]) => {
        const [low, high] = [entry.ranges[name]?.[0] ?? 0, entry.ranges[name]?.[1] ?? usual * 3];
        const whole = Number.isInteger(usual) && usual > 1;
        const set = (x) => { kept.parameters[name] = whole ? Math.max(1, Math.round(x)) : x; crowd(); };
        return range(name, { min: whole ? Math.max(low, 2) : low, max: Math.max(high, usual), step: whole ? 1 : (high - low) / 200, value: kept.parameters[name] ?? usual, oninput: set });
      }));
    await crowd();
  }

  const crowd = newest(() => oops.guard(async () => {
    save(kept);
    const found = await call("city", "crowd", { name: kept.crowd, parameters: kept.parameters });
    if (kept.kind !== "crowd") return;
    const best = found.equilibria[0];
    answer.replaceChildren(h("p", {}, found.about), h("p", { class: "note" }, found.status), facts([["Equilibria found", found.equilibria.length], best && ["Best welfare", best.welfare], best && ["Nobody gains more than", best.gain, "good"]]));
    const told = (one) => `aggregate ${one.aggregate.map((v) => fmt(v, 3)).join(", ")}; welfare ${fmt(one.welfare)}; gain at most ${fmt(one.gain)}${one.stable === null ? "" : one.stable ? "; stable" : "; not stable"}`;
    points.show(found.equilibria.map((one, k) => ({ x: one.aggregate[0], y: one.welfare, stable: one.stable, best: k === 0, text: told(one) })));
    more.replaceChildren(table({ columns: ["aggregate", "mean welfare", "largest gain", "stable", "note"], rows: found.equilibria.map((one) => [one.aggregate.map((v) => fmt(v, 4)).join(", "), one.welfare, one.gain, one.stable, one.note]) }, "", { class: "stack" }));
    code.show(found);
    say(`${found.equilibria.length} equilibria; best welfare ${fmt(best?.welfare)}.`);
  }));

  catalogue = await call("city", "catalogue");
  await setUp();
  return onJob(listen);
}
