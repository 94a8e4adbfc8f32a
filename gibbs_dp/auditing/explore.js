// The explorer of a report: moves gamma over what was audited, and finds the gamma of a limit.
//
// Numbers and sentences are made in Python (explore.py); here they are looked up and drawn. The one
// number that is computed here, a gamma between two audited ones, says that it is interpolated. All
// texts may be a stranger's: they become text nodes, and nothing else.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const { gammas, reports, measures } = data;
  const COLORS = 6; // own0 to own5 of the style sheet
  const state = {
    place: Math.floor((gammas.length - 1) / 2), // of the gamma that is shown
    answers: [], // what the limit comes to, a report each
  };

  // -- elements ---------------------------------------------------------------------------

  const part = (name) => document.getElementById(`explorer-${name}`);

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children); // texts become text nodes
    return node;
  }
  const make = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  const own = (i) => `own${i % COLORS}`;
  // The heading of one of several reports.
  const named = (report, i) =>
    reports.length > 1 ? [make("h3", { class: `explorer-name ${own(i)}` }, report.name)] : [];

  function table(headings, lines, isCurrent = () => false) {
    const row = (cells, tag, more = {}) => make("tr", more, ...cells.map((c) => make(tag, {}, c)));
    const head = make("tr", {}, ...headings.map((h) => make("th", { scope: "col" }, h)));
    const body = lines.map((l, i) => row(l, "td", isCurrent(i) ? { "aria-current": "true" } : {}));
    const whole = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
    return make("div", { class: "explorer-scroll", tabindex: "0", role: "group",
      "aria-label": "Table, scrolls sideways" }, whole);
  }

  // -- numbers ----------------------------------------------------------------------------

  // JSON has no infinity: it is a text there, and null is a number that is not there.
  const number = (x) => (x === null ? NaN : Number(String(x).replace("inf", "Infinity")));
  const gammaNow = () => gammas[state.place];
  const placeIn = (report, gamma) => report.gammas.indexOf(gamma);

  function short(x) {
    if (x === 0) return "0";
    const size = Math.abs(x);
    const text = size >= 1e5 || size < 1e-4 ? x.toExponential(2) : String(Number(x.toPrecision(4)));
    return text.replace(/\.?0+e/, "e");
  }

  function withError(value, error) {
    if (!(error > 0)) return value.toPrecision(4);
    const digits = Math.floor(Math.log10(value)) - Math.floor(Math.log10(error)) + 2;
    const shown = value.toPrecision(Math.min(Math.max(digits, 2), 8));
    return `${Number(shown)} ± ${short(Number(error.toPrecision(2)))}`;
  }

  // Points of a measure: gamma, value and the ends of its interval (the value's own where none is).
  function points(report, name) {
    const found = report.measures[name];
    if (!found) return [];
    return report.gammas.map((gamma, i) => {
      const [value, low, high] = ["value", "low", "high"].map((k) => number(found[k][i]));
      return { gamma, value, text: found.text[i],
        low: Number.isNaN(low) ? value : low, high: Number.isNaN(high) ? value : high };
    }).filter((p) => !Number.isNaN(p.value));
  }

  // -- the limit --------------------------------------------------------------------------

  // The audited gamma that meets a limit with the whole of its interval: the largest, all smaller of
  // which do too, where the number grows with gamma; else the smallest. And where its estimates pass.
  function meeting(report, name, most) {
    const isGrowing = data.limits[name].grows;
    const all = points(report, name);
    if (!all.length) return { all };
    if (!isGrowing) return { all, met: all.find((p) => p.high <= most), ...passing(all, most, false) };
    const end = all.findIndex((p) => !(p.high <= most));
    const met = end < 0 ? all[all.length - 1] : all[end - 1];
    return { all, met, ...passing(all, most, true) };
  }

  // Between which audited gammas the estimates pass the limit, and where a straight line does so. Its
  // error is what those of both ends come to if they are wholly correlated, which is the most.
  function passing(all, most, isGrowing) {
    const is = (p) => p.value <= most;
    const end = all.findIndex((p) => is(p) !== isGrowing);
    if (end < 1 || !Number.isFinite(all[end].value)) return {};
    const [a, b] = [all[end - 1], all[end]];
    if (!(a.gamma > 0)) return { between: [a, b] };
    const isLog = isGrowing && a.value > 0;
    const f = isLog ? Math.log : (x) => x;
    const error = (p) => (p.high - p.low) / 2 / 1.96 / (isLog ? p.value : 1);
    const share = (f(most) - f(a.value)) / (f(b.value) - f(a.value));
    const width = Math.log(b.gamma / a.gamma);
    const gamma = a.gamma * Math.exp(share * width);
    const steepness = Math.abs(f(b.value) - f(a.value)) / width;
    const wrong = ((1 - share) * error(a) + share * error(b)) / steepness;
    return { between: [a, b], gamma, error: gamma * wrong, isLog };
  }

  // What is paid for a limit: the other numbers at a gamma, of privacy or of risk.
  function price(report, name, gamma) {
    const others = data.limits[name].grows ? ["population_risk", "excess_risk"]
      : ["on_average_kl", "right", "epsilon"];
    const told = others.filter((other) => report.measures[other])
      .map((other) => `${measures[other].title} ${report.measures[other].text[placeIn(report, gamma)]}`)
      .filter((text) => !text.endsWith(" -"));
    return told.length ? ` What it costs: ${told.join(", ")}.` : "";
  }

  function answer(report, name, most) {
    const { title } = measures[name];
    const isGrowing = data.limits[name].grows;
    const found = meeting(report, name, most);
    if (!found.all.length) return { texts: [`The audit found no ${title}.`] };
    const texts = [];
    if (found.met) {
      const which = isGrowing ? "largest" : "smallest";
      texts.push(`gamma = ${short(found.met.gamma)} meets it: the ${which} audited gamma whose 95% ` +
        `interval does (${title} ${found.met.text}).${price(report, name, found.met.gamma)}` +
        `${warned(report, found.met.gamma, "of it: read first")}`);
    } else {
      const best = found.all.reduce((p, q) => (q.value < p.value ? q : p));
      texts.push(`No audited gamma meets it with its 95% interval: the least is ${best.text}, at ` +
        `gamma = ${short(best.gamma)}.`);
    }
    if (found.gamma) {
      const [a, b] = found.between.map((p) => short(p.gamma));
      const asked = String(Number(((most - measures[name].offset) / measures[name].factor).toPrecision(12)));
      texts.push(`Estimates pass the limit between gamma = ${a} and ${b}: on a straight line ` +
        `${found.isLog ? "of logarithms " : ""}at ${withError(found.gamma, found.error)}, which is ` +
        `interpolated and was not audited; the error is of the ends, not of the line. To find it: ` +
        `${data.limits[name].finds.replace("{}", asked)}.`);
    } else if (found.met && isGrowing && found.met === found.all[found.all.length - 1]) {
      texts.push("Larger gammas were not audited.");
    }
    return { texts, gamma: found.met?.gamma };
  }

  function warningsAt(report, gamma) {
    return report.warnings.filter((w) => w.gamma === null || w.gamma === gamma);
  }

  function warned(report, gamma, where) {
    const count = warningsAt(report, gamma).length;
    return count ? ` ${count} warning${count > 1 ? "s" : ""} ${where}.` : "";
  }

  function showLimit() {
    const most = part("most").valueAsNumber;
    const name = part("kind").value;
    const isGiven = Number.isFinite(most);
    state.answers = isGiven ? reports.map((report) => answer(report, name, most)) : [];
    const lines = state.answers.flatMap((found, i) => [
      ...named(reports[i], i),
      ...found.texts.map((text) => make("p", {}, text)),
    ]);
    if (!isGiven) lines.push(make("p", { class: "what" }, "Give a number to be told the gamma."));
    part("answer").replaceChildren(...lines);
    const gamma = state.answers[0]?.gamma;
    part("go").disabled = gamma === undefined;
    part("go").textContent = gamma === undefined ? "Move gamma" : `Move to gamma = ${short(gamma)}`;
  }

  // -- the sentences, tiles, warnings and rows of a gamma -------------------------------------

  function reportNow(report, i) {
    const at = placeIn(report, gammaNow());
    const name = named(report, i);
    if (at < 0) {
      const told = `It was not audited at gamma = ${short(gammaNow())}.`;
      return make("section", {}, ...name, make("p", {}, told));
    }
    const texts = (lines) => lines.map((line) => make("p", {}, line));
    const heading = name.length ? "h4" : "h3";
    const tiles = report.tiles[at].map((tile) => make("div", { class: "explorer-tile" },
      make(heading, {}, tile.title), make("strong", {}, tile.value), ` ${tile.unit}`, ...texts(tile.lines)));
    const warnings = warningsAt(report, gammaNow()).map(({ text, more }) =>
      make("div", { class: "warning" }, make("p", {}, make("strong", {}, text)), ...texts(more)));
    const exposed = report.exposed[at] ? [make("h3", {}, report.exposed[at].title),
      table(report.exposed[at].headings, report.exposed[at].lines)] : [];
    const checked = report.checked[at] ? [make("p", { class: "what" }, report.checked[at])] : [];
    return make("section", {}, ...name, make("div", { class: "explorer-tiles" }, ...tiles),
      ...warnings, ...checked, ...exposed);
  }

  function showGamma() {
    const text = `gamma = ${short(gammaNow())}`;
    part("gamma").value = state.place;
    part("gamma").setAttribute("aria-valuetext", text);
    part("now").textContent = text;
    part("told").replaceChildren(...reports.map((report) => {
      const at = placeIn(report, gammaNow());
      const told = at < 0 ? `not audited at ${text}.`
        : report.told[at] + warned(report, gammaNow(), "below");
      return make("p", {}, (reports.length > 1 ? `${report.name}: ` : "") + told);
    }));
    part("reports").replaceChildren(...reports.map(reportNow));
    part("code").textContent = data.python[state.place];
    showDifferences();
    showTable();
  }

  function showDifferences() {
    if (!data.differences) return;
    const { headings, lines } = data.differences;
    const here = lines.filter((_, i) => data.differences.gammas[i] === gammaNow());
    const shown = here.length ? table(headings, here)
      : make("p", {}, "The first report and another were not both audited at this gamma.");
    part("differences").replaceChildren(
      make("h3", {}, `Differences at gamma = ${short(gammaNow())}`), shown);
  }

  function showTable() {
    const { headings, lines } = data.table;
    const shown = table(headings, lines, (i) => data.table.gammas[i] === gammaNow());
    part("table").replaceChildren(part("table").firstElementChild, shown);
  }

  // -- pictures -----------------------------------------------------------------------------

  const HEIGHT = 300;
  const MARGIN = { left: 62, right: 14, top: 12, bottom: 48 };

  // From numbers to places, linear or logarithmic, with ticks that people would choose.
  function scale(values, isLog, from, to, fixed) {
    const usable = values.filter((v) => Number.isFinite(v) && (!isLog || v > 0));
    let [low, high] = fixed ?? [Math.min(...usable), Math.max(...usable)];
    if (!usable.length && !fixed) [low, high] = [isLog ? 0.1 : 0, 1];
    if (isLog && high < 10 * low && !fixed) {
      const wider = Math.sqrt((10 * low) / high);
      [low, high] = [low / wider, high * wider];
    } else if (!fixed) {
      const wide = isLog ? Math.log(high / low) : high - low;
      const gap = 0.04 * wide || 0.1 * Math.abs(high) || 1;
      [low, high] = isLog ? [low / Math.exp(gap), high * Math.exp(gap)] : [low - gap, high + gap];
    }
    const f = isLog ? Math.log : (x) => x;
    const share = (x) => (f(x) - f(low)) / (f(high) - f(low));
    return { isLog, low, high, at: (x) => from + share(x) * (to - from),
      ticks: isLog ? logTicks(low, high) : linearTicks(low, high) };
  }

  function linearTicks(low, high) {
    const raw = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5].find((m) => m * power >= raw) ?? 10);
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i++) found.push(i * step);
    return found;
  }

  function logTicks(low, high) {
    const decades = Math.log10(high / low);
    const every = Math.ceil(decades / 6);
    const found = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++) {
      for (const m of decades < 1.7 ? [1, 2, 5] : [1]) {
        if (k % every === 0) found.push(m * 10 ** k);
      }
    }
    return found.filter((x) => x >= low * (1 - 1e-9) && x <= high * (1 + 1e-9));
  }

  // Axes, and a layer that curves are drawn on.
  function frame(figure, label, xAxis, yAxis) {
    const width = Math.max(figure.clientWidth, 240);
    const inner = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top,
      bottom: HEIGHT - MARGIN.bottom };
    const x = scale(xAxis.values, xAxis.isLog, inner.left, inner.right, xAxis.fixed);
    const y = scale(yAxis.values, yAxis.isLog, inner.bottom, inner.top, yAxis.fixed);
    const svg = draw("svg", { class: "plot", role: "img", "aria-label": label,
      viewBox: `0 0 ${width} ${HEIGHT}` });
    svg.append(draw("title", {}, label), draw("rect", { class: "paper", width, height: HEIGHT }));
    const least = (inner.right - inner.left) / x.ticks.length < 44 ? 2 : 1; // narrow: every other one
    x.ticks.filter((_, i) => i % least === 0).forEach((tick) => svg.append(
      draw("line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: inner.top, y2: inner.bottom }),
      draw("text", { x: x.at(tick), y: inner.bottom + 18, "text-anchor": "middle" }, short(tick))));
    y.ticks.forEach((tick) => svg.append(
      draw("line", { class: "grid", x1: inner.left, x2: inner.right, y1: y.at(tick), y2: y.at(tick) }),
      draw("text", { x: inner.left - 7, y: y.at(tick) + 4, "text-anchor": "end" }, short(tick))));
    const middle = (inner.top + inner.bottom) / 2;
    svg.append(
      draw("rect", { class: "frame", x: inner.left, y: inner.top, width: inner.right - inner.left,
        height: inner.bottom - inner.top }),
      draw("text", { x: (inner.left + inner.right) / 2, y: HEIGHT - 8, "text-anchor": "middle" },
        xAxis.label),
      draw("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` },
        yAxis.label));
    return { svg, x, y, inner };
  }

  const path = (places) =>
    places.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");

  // A line, or a band where there are intervals; what the axes cannot show is left out.
  function curve({ svg, x, y }, all, kind, mark = "") {
    const isShown = (v, axis) => Number.isFinite(v) && (!axis.isLog || v > 0);
    const shown = all.filter((p) => isShown(p.x, x) && isShown(p.value, y));
    const end = (v) => y.at(y.isLog ? Math.max(v, y.low) : v);
    if (shown.length > 1 && shown.some((p) => p.high > p.low)) {
      const there = shown.map((p) => [x.at(p.x), end(p.high)]);
      const back = shown.map((p) => [x.at(p.x), end(p.low)]).reverse();
      svg.append(draw("path", { class: `band ${kind}`, d: `${path([...there, ...back])}Z` }));
    }
    const places = shown.map((p) => [x.at(p.x), y.at(p.value)]);
    svg.append(draw("path", { class: `line ${kind} ${mark}`, d: path(places) }));
    return shown.map((p, i) => ({ ...p, places: places[i], ends: [end(p.low), end(p.high)] }));
  }

  function keys(lines) {
    return make("ul", { class: "explorer-keys" }, ...lines.map(([kind, mark, text]) =>
      make("li", { class: kind }, make("span", { class: mark, "aria-hidden": "true" }), text)));
  }

  // The limit in the unit of a picture's measure, where both are one column.
  function limitIn(name) {
    const most = part("most").valueAsNumber;
    const [asked, here] = [measures[part("kind").value], measures[name]];
    if (!Number.isFinite(most) || asked?.column !== here.column) return NaN;
    return here.offset + (here.factor * (most - asked.offset)) / asked.factor;
  }

  // The curves of a picture, each of one report and one measure.
  function curvesOf(names) {
    return reports.flatMap((report, i) => names.map((name, k) => ({
      kind: own(i), mark: k ? "dashed" : "", grown: 1.5 * (reports.length - 1 - i), name,
      title: (reports.length > 1 ? `${report.name}: ` : "") + measures[name].title,
      places: points(report, name).map((p) => ({ ...p, x: p.gamma })),
    }))).filter((c) => c.places.length);
  }

  function showOverGamma(which) {
    const figure = part(which);
    const names = data.pictures[which][part(`${which}-choice`).value] ?? [];
    const curves = curvesOf(names);
    figure.hidden = !curves.length;
    if (!curves.length) return;
    const [here, most] = [gammaNow(), limitIn(names[0])];
    const all = curves.flatMap((c) => c.places);
    const canBeLog = all.every((p) => p.value > 0);
    const isLog = part(`log-${which}`).checked && canBeLog;
    // The end of an interval that reaches 0 has no place on a logarithmic axis, and does not widen it.
    const values = all.flatMap((p) => (isLog ? [p.value, p.high] : [p.value, p.low, p.high]));
    const there = reports.map((r) => r.measures[names[0]]?.text[placeIn(r, here)]).filter(Boolean);
    const label = `${names.map((name) => measures[name].title).join(" and ")} over gamma; at gamma = ` +
      `${short(here)}: ${there.join(", ") || "not audited"}. The table below has all numbers.`;
    const on = frame(figure, label,
      { values: gammas, isLog: part("log-gamma").checked, label: "gamma" },
      { values: [...values, most], isLog, label: part(`${which}-choice`).value });
    const { svg, x, y, inner } = on;
    const shown = gammas.filter((gamma) => !x.isLog || gamma > 0);
    const across = (gamma) => ({ x1: x.at(gamma), x2: x.at(gamma), y1: inner.top, y2: inner.bottom });
    if (shown.includes(here)) svg.append(draw("line", { class: "now", ...across(here) }));
    curves.forEach((c) => mark(on, c, curve(on, c.places, c.kind, c.mark)));
    if (Number.isFinite(most) && (!y.isLog || most > 0)) {
      const level = { x1: inner.left, x2: inner.right, y1: y.at(most), y2: y.at(most) };
      const corner = { x: inner.left + 5, y: y.at(most) - 5 };
      svg.append(draw("line", { class: "limit", ...level }),
        draw("text", { class: "limit", ...corner }, "limit"));
    }
    const doubtful = shown.filter((g) => reports.some((r) => r.warnings.some((w) => w.gamma === g)));
    doubtful.forEach((g) => svg.append(draw("path", { class: "warned",
      d: `M${x.at(g) - 6} ${inner.bottom}l6 -10l6 10Z` })));
    svg.addEventListener("click", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
      const far = (gamma) => Math.abs(x.at(gamma) - at);
      if (shown.length) move(gammas.indexOf(shown.reduce((p, q) => (far(q) < far(p) ? q : p))));
    });
    const notes = names.filter((name) => !curves.some((c) => c.name === name))
      .map((name) => `${measures[name].title}: not known`);
    if (doubtful.length) notes.push("▲ a warning at this gamma");
    if (shown.length < gammas.length) notes.push("gamma = 0 has no place on this axis");
    if (!canBeLog) notes.push("not all above 0: no logarithms");
    mount(figure, svg, [...curves.map((c) => [c.kind, c.mark, c.title]),
      ...notes.map((text) => ["", "none", text])]);
  }

  // Points with their intervals; those of the first report are the largest, so that all are seen.
  function mark({ svg }, { kind, grown }, shown) {
    for (const p of shown) {
      const [cx, cy] = p.places;
      const bar = { class: `bar ${kind}`, x1: cx, x2: cx, y1: p.ends[0], y2: p.ends[1] };
      if (p.high > p.low) svg.append(draw("line", bar));
      const r = (p.gamma === gammaNow() ? 6 : 3.5) + grown;
      svg.append(draw("circle", { class: `point ${kind}`, cx, cy, r }));
    }
  }

  function showRoc() {
    const figure = part("roc");
    const found = reports
      .map((report, i) => ({ i, report, roc: report.roc[placeIn(report, gammaNow())] }))
      .filter(({ roc }) => roc);
    figure.hidden = !reports.some((report) => report.roc.some((roc) => roc));
    if (figure.hidden) return;
    const isLog = part("log-roc").checked;
    const axis = { values: [], isLog, fixed: isLog ? [1e-3, 1] : [0, 1] };
    const at = found.map(({ report }) => report.told[placeIn(report, gammaNow())]).join(" ");
    const on = frame(figure, `ROC of the attacker. ${at}`, { ...axis, label: "false positive rate" },
      { ...axis, label: "true positive rate" });
    const lines = [];
    const seen = (x) => x >= axis.fixed[0];
    const diagonal = axis.fixed.map((v) => [on.x.at(v), on.y.at(v)]);
    on.svg.append(draw("path", { class: "guess dotted", d: path(diagonal) }));
    for (const { i, report, roc } of found) {
      const name = reports.length > 1 ? `${report.name}: ` : "";
      const of = (key, isBand) => roc.fpr.map((x, k) => ({ x, value: number(roc[key][k]),
        low: isBand ? number(roc.low[k]) : NaN, high: isBand ? number(roc.high[k]) : NaN }))
        .filter((p) => seen(p.x) && seen(p.value));
      curve(on, of("tpr", true), own(i));
      lines.push([own(i), "", `${name}the best attacker`]);
      if (!roc.allowed) continue;
      curve(on, of("allowed", false), own(i), "dashed");
      lines.push([own(i), "dashed", `${name}the most that DP epsilon allows`]);
    }
    mount(figure, on.svg, [...lines, ["", "dotted", "guessing"]]);
  }

  // Put a picture, what its lines are, and its download below its caption.
  function mount(figure, svg, lines) {
    const button = make("button", { type: "button" }, "Download SVG");
    button.addEventListener("click", () => saveSvg(figure.id.replace("explorer-", ""), svg, lines));
    figure.replaceChildren(figure.querySelector("figcaption"), svg, keys(lines), button);
  }

  function showPictures() {
    part("gives").firstElementChild.textContent = "What one draw gives away over gamma";
    part("risk").firstElementChild.textContent = "What is paid in risk over gamma";
    part("roc").firstElementChild.textContent = `What the attacker sees at gamma = ${short(gammaNow())}`;
    ["gives", "risk"].forEach(showOverGamma);
    showRoc();
  }

  // -- files, and the clipboard ---------------------------------------------------------------

  function save(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    make("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    part("done").textContent = `Saved ${name}.`;
  }

  // A picture for other programs, which know none of the page's style: on white, every look its own.
  const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-family",
    "font-size"];

  function saveSvg(name, svg, lines) {
    const legend = legendOf(lines);
    svg.append(...legend);
    svg.classList.add("printed");
    const copy = svg.cloneNode(true);
    const [there, here] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    here.forEach((node, i) => {
      const look = getComputedStyle(there[i]);
      LOOKS.forEach((key) => node.setAttribute(key, look.getPropertyValue(key)));
      node.removeAttribute("class");
    });
    svg.classList.remove("printed");
    legend.forEach((node) => node.remove());
    const width = svg.viewBox.baseVal.width;
    const height = HEIGHT + LINE * lines.length;
    fill(copy, { width, height, viewBox: `0 0 ${width} ${height}` }, []);
    copy.querySelector("rect").setAttribute("height", height);
    save(`gibbs-dp-${name}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
  }

  // What the lines of a picture are, below it.
  const LINE = 22;

  function legendOf(lines) {
    return lines.flatMap(([kind, mark, text], i) => {
      const y = HEIGHT + LINE * i + 6;
      const key = draw("line", { class: `${kind ? `line ${kind}` : "guess"} ${mark}`, y1: y, y2: y,
        x1: MARGIN.left, x2: MARGIN.left + 26 });
      const told = draw("text", { x: MARGIN.left + 34, y: y + 4 }, text);
      return mark === "none" ? [told] : [key, told];
    });
  }

  // Quoted where needed; a text that a spreadsheet would take for a formula gets an apostrophe.
  function cell(value) {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) && !/^-?inf$/.test(value)
      ? `'${value}` : String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function csv() {
    const rows = reports.flatMap(({ name, rows }) => rows.map((row) => ({ report: name, ...row })));
    const columns = [...new Set(rows.flatMap(Object.keys))];
    return [columns, ...rows.map((row) => columns.map((c) => row[c]))]
      .map((line) => `${line.map(cell).join(",")}\r\n`).join("");
  }

  async function copy() {
    const code = part("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      part("copy").textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      part("copy").textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { part("copy").textContent = "Copy"; }, 3000);
  }

  // -- what people do ---------------------------------------------------------------------------

  function move(to) {
    state.place = Math.min(Math.max(to, 0), gammas.length - 1);
    showGamma();
    showPictures();
  }

  function limit() {
    showLimit();
    showPictures();
  }

  function offer(select, values, text) {
    select.append(...values.map((value) => make("option", { value }, text(value))));
  }

  const isThere = (name) => reports.some((report) => report.measures[name]);
  const unitOf = (name) => `${measures[name].unit === "%" ? "% " : ""}${measures[name].title}` +
    (measures[name].unit === "%" ? "" : ` (${measures[name].unit})`);

  part("gamma").max = gammas.length - 1;
  part("gamma").addEventListener("input", () => move(part("gamma").valueAsNumber));
  offer(part("kind"), Object.keys(data.limits).filter(isThere), unitOf);
  for (const which of ["gives", "risk"]) {
    const named = Object.entries(data.pictures[which]).filter(([, names]) => isThere(names[0]));
    offer(part(`${which}-choice`), named.map(([name]) => name), (name) => name);
    part(`${which}-choice`).addEventListener("change", showPictures);
  }
  ["gamma", "gives", "risk", "roc"].forEach((name) =>
    part(`log-${name}`).addEventListener("change", showPictures));
  part("most").addEventListener("input", limit);
  part("kind").addEventListener("change", limit);
  part("go").addEventListener("click", () => move(gammas.indexOf(state.answers[0].gamma)));
  part("csv").addEventListener("click", () => save("gibbs-dp-audit.csv", "text/csv", csv()));
  part("copy").addEventListener("click", copy);

  document.getElementById("explorer").hidden = false;
  move(state.place);
  showLimit();
  let width = innerWidth;
  addEventListener("resize", () => { // a phone's height changes while one scrolls
    if (innerWidth !== width) showPictures();
    width = innerWidth;
  });
})();
