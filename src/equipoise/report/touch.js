// Makes a page interactive: sort tables, read and hide curves, enlarge figures. Without this script
// the page shows the same content.
globalThis.touch = (root) => {
  const make = (tag, text, props = {}) => Object.assign(document.createElement(tag), { textContent: text, ...props });

  const valueOf = (cell) => {
    const text = cell.textContent.trim().replaceAll("−", "-");
    if (text === "–" || text === "") return null;
    const number = Number(text.replaceAll(",", "").replace("∞", "Infinity"));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const order = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a < b ? -1 : a > b ? 1 : 0;
  };

  function sortable(table) {
    const heads = [...table.querySelectorAll("thead th")];
    const body = table.tBodies[0];
    if (!body || body.rows.length < 3 || !heads.length) return;
    heads.forEach((head, column) => {
      const button = make("button", "", { type: "button", className: "sort", title: "Sort by this column" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
        rows.sort(([a], [b]) => (a === null || b === null ? order(a, b) : up ? order(a, b) : order(b, a)));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // A curve is a group drawn by matplotlib; `data-curves` on the figure holds its numbers.
  function curves(svg) {
    const told = JSON.parse(svg.dataset.curves);
    const found = told.flatMap((curve) => {
      const group = svg.querySelector(`[id="${curve.id}"]`);
      const path = group?.querySelector("path");
      if (!path) return [];
      const numbers = path.getAttribute("d").match(/-?[\d.]+(e-?\d+)?/g).map(Number);
      const points = curve.x.map((x, k) => [numbers[2 * k], numbers[2 * k + 1], x, curve.y[k]]);
      return points.some((p) => p.includes(undefined)) ? [] : [{ ...curve, group, points }];
    });
    if (!found.length) return;
    const readout = make("p", "", { className: "readout", ariaLive: "polite" });
    const keys = make("p", "", { className: "keys" });
    for (const curve of found) {
      const key = make("button", curve.name, { type: "button", title: "Show or hide" });
      key.setAttribute("aria-pressed", "true");
      key.addEventListener("click", () => {
        curve.off = !curve.off;
        key.setAttribute("aria-pressed", String(!curve.off));
        [curve.group, ...curve.also.map((id) => svg.querySelector(`[id="${id}"]`))].forEach((part) => { if (part) part.style.display = curve.off ? "none" : ""; });
      });
      keys.append(key);
    }
    svg.after(readout, ...(found.length > 1 ? [keys] : []));
    const [left, , wide] = svg.getAttribute("viewBox").split(/[\s,]+/).map(Number);
    let cursor = left;
    const tell = (x) => {
      cursor = Math.min(left + wide, Math.max(left, x));
      readout.textContent = found.filter((curve) => !curve.off).map((curve) => {
        const near = curve.points.reduce((a, b) => (Math.abs(b[0] - cursor) < Math.abs(a[0] - cursor) ? b : a));
        return `${curve.name}: ${Number(near[3].toPrecision(4))} at ${near[2].toLocaleString("en")}`;
      }).join(" · ");
    };
    svg.addEventListener("pointermove", (event) => tell(new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x));
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      tell(cursor + (step * wide) / 40);
    });
  }

  // Enlarge fills the width; then the wheel, + and − zoom, and dragging moves the figure.
  function zoomable(figure) {
    const svg = figure.querySelector("svg");
    if (!svg) return;
    const whole = svg.getAttribute("viewBox").split(/[\s,]+/).map(Number);
    const button = make("button", "Enlarge", { type: "button", className: "enlarge", title: "Enlarge, then zoom with the wheel or + and −, and drag to move" });
    button.setAttribute("aria-pressed", "false");
    let box = [...whole];
    const set = () => {
      for (const k of [0, 1]) box[k] = Math.min(whole[k] + whole[k + 2] - box[k + 2], Math.max(whole[k], box[k])); // stay within the figure
      svg.setAttribute("viewBox", box.join(" "));
    };
    button.addEventListener("click", () => {
      const large = figure.classList.toggle("large");
      button.textContent = large ? "Shrink" : "Enlarge";
      button.setAttribute("aria-pressed", String(large));
      box = [...whole];
      set();
      if (large) { svg.setAttribute("tabindex", "0"); svg.focus(); }
    });
    figure.append(button);
    const zoom = (at, sign) => {
      const factor = Math.min(1, Math.max(0.05, (box[2] / whole[2]) * 1.2 ** sign)) * (whole[2] / box[2]);
      box = [at.x - (at.x - box[0]) * factor, at.y - (at.y - box[1]) * factor, box[2] * factor, box[3] * factor];
      set();
    };
    svg.addEventListener("keydown", ({ key }) => {
      const sign = { "+": -1, "-": 1 }[key];
      if (sign && figure.classList.contains("large")) zoom({ x: box[0] + box[2] / 2, y: box[1] + box[3] / 2 }, sign);
    });
    svg.addEventListener("wheel", (event) => {
      if (!figure.classList.contains("large")) return;
      event.preventDefault();
      zoom(new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()), Math.sign(event.deltaY));
    }, { passive: false });
    svg.addEventListener("pointermove", (event) => {
      if (!figure.classList.contains("large") || !event.buttons) return;
      const scale = box[2] / svg.getBoundingClientRect().width;
      box[0] -= event.movementX * scale;
      box[1] -= event.movementY * scale;
      set();
    });
  }

  root.querySelectorAll("table:not(.cells)").forEach(sortable);
  root.querySelectorAll("svg[data-curves]").forEach(curves);
  root.querySelectorAll("figure:not(.picture)").forEach(zoomable);
};
if (document.documentElement.classList.contains("report")) globalThis.touch(document);
