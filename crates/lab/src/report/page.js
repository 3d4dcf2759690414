"use strict";
// Adds to each chart of lines: the values under the pointer, lines that a click on the legend hides, and the part of the x axis
// that is dragged over, drawn larger; a double click draws all again. Numbers are those of the chart's data attribute.
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const chart = JSON.parse(figure.dataset.chart);
  const svg = figure.querySelector(":scope > svg");
  const area = { left: 64, right: 704, top: 12, bottom: 256 };
  const lines = [...svg.querySelectorAll(".line")];
  const hidden = new Set();
  const make = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const text = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size < 0.001 || size >= 1e9)) return value.toExponential(3);
    return value.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? 6 : 4 });
  };
  // Where each line's points are drawn at first; the y of a point never changes.
  const drawn = lines.map((line) => {
    const pairs = line.querySelector("polyline").getAttribute("points").trim();
    return pairs === "" ? [] : pairs.split(" ").map((pair) => pair.split(",").map(Number));
  });
  const inner = (value) => (chart.x.log ? Math.log(value) : value);
  const outer = (value) => (chart.x.log ? Math.exp(value) : value);
  // The scale follows from two points of the drawing that are far apart.
  let least = null, most = null;
  chart.lines.forEach((line, at) => line.points.forEach(([x], i) => {
    if (least === null || x < least.x) least = { x, px: drawn[at][i][0] };
    if (most === null || x > most.x) most = { x, px: drawn[at][i][0] };
  }));
  if (least === null || least.x === most.x) continue;
  const unit = (inner(most.x) - inner(least.x)) / (most.px - least.px);
  const whole = [area.left, area.right].map((px) => inner(least.x) + (px - least.px) * unit);
  let range = whole;
  const across = (x) => area.left + ((inner(x) - range[0]) / (range[1] - range[0])) * (area.right - area.left);
  const back = (px) => range[0] + ((px - area.left) / (area.right - area.left)) * (range[1] - range[0]);

  const grid = svg.querySelector(".across");
  const firstGrid = [...grid.childNodes];
  function redraw() {
    const all = range === whole;
    lines.forEach((line, at) => {
      const points = chart.lines[at].points.map(([x], i) => `${(all ? drawn[at][i][0] : across(x)).toFixed(1)},${drawn[at][i][1]}`);
      line.querySelector("polyline").setAttribute("points", points.join(" "));
      for (const mark of line.querySelectorAll(".mark")) mark.style.display = all ? "" : "none";
    });
    if (all) return grid.replaceChildren(...firstGrid);
    grid.replaceChildren();
    for (let i = 0; i <= 5; i++) {
      const px = area.left + (i / 5) * (area.right - area.left);
      grid.append(make("path", { d: `M${px} ${area.top}V${area.bottom}` }));
      const label = make("text", { class: "middle", x: px, y: area.bottom + 16 });
      label.textContent = text(outer(back(px)));
      grid.append(label);
    }
  }

  figure.querySelector(".legend").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const line = Number(button.dataset.line);
    hidden.has(line) ? hidden.delete(line) : hidden.add(line);
    button.setAttribute("aria-pressed", String(!hidden.has(line)));
    lines[line].classList.toggle("off", hidden.has(line));
  });

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  figure.append(tip);
  const cross = make("path", { class: "cross", d: "" });
  const part = make("rect", { class: "part", y: area.top, height: area.bottom - area.top, width: 0, x: 0 });
  svg.append(part, cross);
  let from = null;
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * 720;
    return Math.min(Math.max(px, area.left), area.right);
  };
  function leave() {
    tip.hidden = true;
    cross.setAttribute("d", "");
  }
  svg.addEventListener("pointermove", (event) => {
    const px = place(event);
    if (from !== null) {
      part.setAttribute("x", Math.min(from, px));
      part.setAttribute("width", Math.abs(px - from));
    }
    let nearest = null;
    chart.lines.forEach((line, at) => {
      if (hidden.has(at)) return;
      for (const [x] of line.points) {
        const distance = Math.abs(across(x) - px);
        if (nearest === null || distance < nearest.distance) nearest = { x, distance };
      }
    });
    if (nearest === null) return leave();
    const rows = [`${chart.x.label}: ${text(nearest.x)}`];
    chart.lines.forEach((line, at) => {
      if (hidden.has(at)) return;
      const point = line.points.find(([x]) => x === nearest.x);
      if (point) rows.push(`${line.name}: ${text(point[1])}`);
    });
    tip.textContent = rows.join("\n");
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), at = across(nearest.x);
    cross.setAttribute("d", `M${at} ${area.top}V${area.bottom}`);
    const left = (at / 720) * box.width;
    tip.style.top = `${box.top - figure.getBoundingClientRect().top + 8}px`;
    tip.style.left = `${left + 14 + tip.offsetWidth > box.width ? left - tip.offsetWidth - 14 : left + 14}px`;
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    from = place(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const ends = [from, place(event)].sort((a, b) => a - b);
    from = null;
    part.setAttribute("width", 0);
    if (ends[1] - ends[0] < 8) return;
    range = ends.map(back);
    redraw();
  });
  svg.addEventListener("dblclick", () => {
    range = whole;
    redraw();
  });
}
