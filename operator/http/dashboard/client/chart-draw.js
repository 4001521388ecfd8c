import { createTooltip } from './chart-tooltip.js';
import { plain } from './format.js';
import uPlot from './vendor/uplot.js';

export const HEIGHT = 260;
const HATCH = 8;
/** Height of the strip at the top, which marks when some tenant clusters were not measured. */
const STRIP_HEIGHT = 12;

/**
 * @typedef {import('./series.js').Drawn & { holes: import('./holes.js').Hole[], running: boolean,
 *   colours: string[], decimals: number }} Drawing
 */

/**
 * Draws stacked steps: hatched where nothing was measured, faded where the last step still runs.
 * @param {HTMLElement} element
 * @param {Drawing} drawing
 */
export function drawChart(element, drawing) {
  const { times, step, series, colours } = drawing;
  const style = getComputedStyle(document.documentElement);
  const resolve = (/** @type {string} */ name) => colourOf(element, style.getPropertyValue(name));
  const [text, line, surface] = [resolve('--muted'), resolve('--line'), resolve('--surface')];
  const end = (times.at(-1) ?? 0) + step;
  const steps = uPlot.paths.stepped?.({ align: 1 });
  const axis = {
    stroke: text,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
  };
  return new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: false, y: false } },
      scales: { y: { range: (_, __, max) => [0, max <= 0 ? 1 : max * 1.05] } },
      axes: [
        { ...axis, values: (_, splits) => splits.map(timeMark) },
        { ...axis, size: 70, values: (_, splits) => splits.map(amountMark) },
      ],
      series: [
        {},
        ...series.map(({ name }, index) => ({
          label: name,
          stroke: colours[index] ?? '',
          fill: colours[index] ?? '',
          width: 1,
          ...(steps === undefined ? {} : { paths: steps }),
          points: { show: false },
        })),
      ],
      hooks: { draw: [(plot) => drawMarks(plot, drawing, { text, surface })] },
      plugins: [createTooltip(drawing)],
    },
    // The last step needs an end.
    [[...times, end], ...stacked(drawing).map((values) => [...values, values.at(-1) ?? 0])],
    element,
  );
}

/**
 * Adds to each series all series after it. The last one lies at the bottom: each is drawn down to
 * the axis and covered by the next.
 * @param {Drawing} drawing
 */
function stacked({ times, series }) {
  return series.map((_, first) =>
    times.map((__, at) =>
      series.slice(first).reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
    ),
  );
}

/**
 * @param {uPlot} plot @param {Drawing} drawing @param {{ text: string, surface: string }} colours
 */
function drawMarks(plot, { times, step, holes, running }, { text, surface }) {
  const { ctx, bbox } = plot;
  const fill = (/** @type {number} */ from, /** @type {number} */ to, height = bbox.height) => {
    const left = Math.max(plot.valToPos(from, 'x', true), bbox.left);
    const right = Math.min(plot.valToPos(to, 'x', true), bbox.left + bbox.width);
    if (right > left) ctx.fillRect(left, bbox.top, Math.max(right - left, 2), height);
  };
  ctx.save();
  const last = times.at(-1) ?? 0;
  if (running) {
    ctx.globalAlpha = 0.45;
    ctx.fillStyle = surface;
    fill(last, last + step);
    ctx.globalAlpha = 1;
  }
  const hatching = ctx.createPattern(tileOf(text, drawLines), 'repeat');
  const dots = ctx.createPattern(tileOf(text, drawDot), 'repeat');
  for (const { from, to, kind } of holes) {
    ctx.fillStyle = (kind === 'before' ? dots : hatching) ?? text;
    fill(from, Math.min(to, Date.now() / 1000), kind === 'some' ? STRIP_HEIGHT : bbox.height);
  }
  ctx.restore();
}

/**
 * A canvas with one tile of a pattern.
 * @param {string} colour
 * @param {(context: CanvasRenderingContext2D) => void} draw
 */
function tileOf(colour, draw) {
  const tile = document.createElement('canvas');
  tile.width = HATCH;
  tile.height = HATCH;
  const context = tile.getContext('2d');
  if (context === null) return tile;
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.globalAlpha = 0.7;
  context.beginPath();
  draw(context);
  return tile;
}

/** @param {CanvasRenderingContext2D} context */
function drawLines(context) {
  for (const offset of [-HATCH, 0, HATCH]) {
    context.moveTo(offset, HATCH);
    context.lineTo(offset + HATCH, 0);
  }
  context.stroke();
}

/** @param {CanvasRenderingContext2D} context */
function drawDot(context) {
  context.arc(HATCH / 2, HATCH / 2, 1.2, 0, 2 * Math.PI);
  context.fill();
}

/** `12.5 M` from a million on: the axis is narrow. @param {number} value */
function amountMark(value) {
  return value < 1_000_000 ? plain(value) : `${plain(value / 1_000_000)} M`;
}

/** The label of the axis: the hour, or the day at midnight. @param {number} seconds */
function timeMark(seconds) {
  const iso = new Date(seconds * 1000).toISOString();
  return iso.slice(11, 16) === '00:00' ? iso.slice(5, 10) : iso.slice(11, 16);
}

/**
 * The computed colour of a CSS expression; a canvas does not understand `light-dark()`.
 * @param {HTMLElement} element
 * @param {string} value
 */
function colourOf(element, value) {
  const probe = document.createElement('span');
  probe.style.color = value;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
