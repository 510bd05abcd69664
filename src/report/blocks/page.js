// Zooms into curves and shows values under the pointer. The page is complete without this script.
"use strict";
(() => {
  const svgns = "http://www.w3.org/2000/svg";
  const make = (name, attributes) => {
    const node = document.createElementNS(svgns, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const digits = (n) => Number(n.toPrecision(3)).toString();
  const time = (ns) => {
    const units = [[3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
    const fits = units.find(([size]) => Math.abs(ns) >= (size >= 60e9 ? 2 * size : size)) || [1, "ns"];
    return ns === 0 ? "0" : `${digits(ns / fits[0])} ${fits[1]}`;
  };

  const zoomable = (figure) => {
    const svg = figure.querySelector("svg[data-plot]");
    const tools = figure.querySelector(".tools");
    if (!svg || !tools) return;
    const [kind, ...numbers] = svg.dataset.plot.split(" ");
    const [from, to, left, width, top, bottom] = numbers.map(Number);
    const log = kind === "log";
    const value = (part) => (log ? from * (to / from) ** part : from + (to - from) * part);
    const output = tools.querySelector("output");
    const axis = svg.querySelector(".xaxis");
    const whole = axis.cloneNode(true);
    const zoomed = svg.querySelector(".zoomed");
    const isHistogram = log;
    const curves = [...svg.querySelectorAll("[data-steps]")].map((curve) => ({
      label: curve.dataset.label,
      steps: curve.dataset.steps.trim().split(" ").filter(Boolean).map((s) => s.split(",").map(Number)),
    }));
    const marked = [...svg.querySelectorAll(".marked")];
    tools.hidden = false;
    // The visible range, as fractions of the whole.
    let view = [0, 1];

    const ticks = () => {
      const [low, high] = view.map(value);
      const found = [];
      if (log && high / low > 4) {
        for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
          for (const m of high / low < 300 ? [1, 2, 5] : [1]) found.push(m * 10 ** power);
        }
      } else {
        const rough = (high - low) / 6;
        const power = 10 ** Math.floor(Math.log10(rough));
        const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
        for (let n = Math.ceil(low / step) * step; n <= high; n += step) found.push(n);
      }
      return found.filter((n) => n >= low * 0.999999 && n <= high * 1.000001);
    };
    const part = (n) => (log ? Math.log(n / from) / Math.log(to / from) : (n - from) / (to - from));
    const show = () => {
      const scale = 1 / (view[1] - view[0]);
      const shift = left - scale * (left + view[0] * width);
      const isWhole = scale === 1;
      zoomed.setAttribute("transform", isWhole ? "" : `translate(${shift} 0) scale(${scale} 1)`);
      for (const text of marked) text.style.display = isWhole ? "" : "none";
      figure.dataset.zoom = scale.toFixed(3);
      if (isWhole) {
        axis.replaceChildren(...[...whole.cloneNode(true).childNodes]);
      } else {
        axis.replaceChildren(...ticks().flatMap((n) => {
          const x = left + width * (part(n) - view[0]) * scale;
          const text = make("text", { class: "tick", x, y: bottom + 17, "text-anchor": "middle" });
          text.textContent = time(n);
          return [make("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }), text];
        }));
      }
      const [low, high] = view.map(value);
      output.value = isWhole ? "The whole range." : `${time(low)} to ${time(high)}`;
    };
    const setView = (low, high) => {
      const size = Math.min(1, Math.max(high - low, 1 / 4096));
      const start = Math.min(Math.max(low, 0), 1 - size);
      view = [start, start + size];
      show();
    };
    const zoomAround = (middle, factor) => {
      const size = (view[1] - view[0]) * factor;
      const at = (middle - view[0]) / (view[1] - view[0]);
      setView(middle - at * size, middle + (1 - at) * size);
    };
    const centre = () => (view[0] + view[1]) / 2;
    const move = (share) => {
      const by = (view[1] - view[0]) * share;
      setView(view[0] + by, view[1] + by);
    };
    const actions = {
      in: () => zoomAround(centre(), 0.5),
      out: () => zoomAround(centre(), 2),
      left: () => move(-0.4),
      right: () => move(0.4),
      whole: () => setView(0, 1),
    };
    for (const button of tools.querySelectorAll("button")) {
      button.addEventListener("click", actions[button.dataset.zoom]);
    }

    const place = (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return null;
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      const along = (point.x - left) / width;
      return { x: point.x, part: view[0] + Math.min(1, Math.max(0, along)) * (view[1] - view[0]), inside: along >= 0 && along <= 1 };
    };
    const hair = make("line", { class: "hair", y1: top, y2: bottom, visibility: "hidden" });
    const band = make("rect", { class: "band", y: top, height: bottom - top, visibility: "hidden" });
    svg.append(band, hair);
    let dragStart = null;
    svg.addEventListener("pointerdown", (event) => {
      const at = place(event);
      if (event.button !== 0 || event.pointerType === "touch" || !at || !at.inside) return;
      dragStart = at;
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    svg.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (!at || !at.inside) return;
      hair.setAttribute("x1", at.x);
      hair.setAttribute("x2", at.x);
      hair.setAttribute("visibility", "visible");
      if (dragStart) {
        band.setAttribute("x", Math.min(dragStart.x, at.x));
        band.setAttribute("width", Math.abs(dragStart.x - at.x));
        band.setAttribute("visibility", "visible");
      }
      const n = value(at.part);
      const values = curves.map(({ label, steps }) => {
        const step = steps.find(([low, high]) => n >= low && n < high);
        if (isHistogram) return `${label}: ${step ? step[2].toLocaleString("en") : "none"}`;
        return `${label}: ${step ? time(step[2]) : "no events"}`;
      });
      output.value = `${time(n)} — ${values.join("; ")}`;
    });
    const end = (event) => {
      const at = place(event);
      band.setAttribute("visibility", "hidden");
      if (dragStart && at && Math.abs(at.x - dragStart.x) > 5) {
        setView(Math.min(dragStart.part, at.part), Math.max(dragStart.part, at.part));
      }
      dragStart = null;
    };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointercancel", () => { dragStart = null; band.setAttribute("visibility", "hidden"); });
    svg.addEventListener("pointerleave", () => hair.setAttribute("visibility", "hidden"));
    svg.addEventListener("dblclick", () => setView(0, 1));
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      const at = place(event);
      if (!at) return;
      event.preventDefault();
      zoomAround(at.part, (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8);
    }, { passive: false });
    figure.querySelector(".drawing").addEventListener("keydown", (event) => {
      const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole", Escape: "whole" };
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[action]();
    });
  };
  for (const figure of document.querySelectorAll("figure.picture")) zoomable(figure);
  // Folded sections are printed as well.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("section > details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();
