import { html, useEffect, useRef } from './preact.js';
import { drawChart, HEIGHT } from './chart-draw.js';
import { coloursOf } from './colours.js';
import { clock, decimalsOf, quantity } from './format.js';
import { HOLE_WORDS, isUnknown, notesOf } from './holes.js';
import { Table, text } from './table.js';

/** @typedef {import('./series.js').Drawn} Drawn */
/** @typedef {import('./holes.js').Hole} Hole */

/**
 * Series over time as stacked areas, with the same figures as a table underneath.
 * @param {{ title: string, unit: string, drawn: Drawn, unmeasured: ReturnType<typeof
 *   import('./holes.js').useHoles>, total: string }} properties `total` is the sum of all, as the
 *   server has it
 */
export function StackedChart({ title, unit, drawn, unmeasured: { holes, error }, total }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { times, step, series } = drawn;
  const running = (times.at(-1) ?? 0) + step > Date.now() / 1000;
  const colours = coloursOf(series.map(({ key }) => key));
  const decimals = decimalsOf(
    unit,
    series.flatMap(({ values }) => values),
  );
  useEffect(() => {
    const element = place.current;
    if (element === null || times.length === 0) return undefined;
    const make = () => drawChart(element, { ...drawn, holes, running, colours, decimals });
    let plot = make();
    const redraw = () => {
      plot.destroy();
      plot = make();
    };
    const resized = new ResizeObserver(() =>
      plot.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    resized.observe(element);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', redraw);
    const theme = new MutationObserver(redraw);
    theme.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      resized.disconnect();
      theme.disconnect();
      scheme.removeEventListener('change', redraw);
      plot.destroy();
    };
  }, [drawn, holes]);
  const doubt =
    error &&
    html`<p class="notice warn">Gaps are not marked, because they cannot be read: ${error.message}</p>`;
  if (series.length === 0) return html`${doubt}<p class="empty">${emptyText(holes)}</p>`;
  const kinds = /** @type {const} */ (['before', 'all', 'some']).filter((kind) =>
    holes.some((hole) => hole.kind === kind),
  );
  return html`
    ${doubt}
    <figure>
      <figcaption>${title}, ${unit}</figcaption>
      <div class="chart" role="img" aria-label=${`${title}: ${total} in all. The figures are in the table below.`} ref=${place}></div>
      <ul class="legend">
        ${series.map(({ name }, index) => html`<li><span class="swatch" style=${{ background: colours[index] }}></span>${name}</li>`)}
        ${kinds.map((kind) => html`<li><span class=${`swatch ${kind}`}></span>${HOLE_WORDS[kind].name}</li>`)}
        ${running && html`<li><span class="swatch running"></span>still running</li>`}
      </ul>
      <details>
        <summary>The same figures as a table</summary>
        <${Table} caption=${`${title}, figures`} rows=${times.map((at, index) => ({ at, index }))} empty="None."
          columns=${[
            text(
              'From (UTC)',
              (row) => `${clock(new Date(row.at * 1000).toISOString())}${mark(row.at, row.index)}`,
            ),
            ...series.map(({ name, values }) => ({
              name,
              number: true,
              cell: (/** @type {{ at: number, index: number }} */ row) =>
                cellText(values[row.index] ?? 0, row),
            })),
          ]} />
      </details>
    </figure>
  `;

  /**
   * The figure of a step; `unknown` instead of a zero that was not measured.
   * @param {number} value
   * @param {{ at: number }} row
   */
  function cellText(value, { at }) {
    return value === 0 && isUnknown(holes, at, step) ? 'unknown' : quantity(value, decimals);
  }

  /** @param {number} at @param {number} index */
  function mark(at, index) {
    const isRunning = running && index === times.length - 1;
    const notes = [...(isRunning ? ['still running'] : []), ...notesOf(holes, at, step)];
    return notes.length === 0 ? '' : ` (${notes.join(', ')})`;
  }
}

/** @param {Hole[]} holes */
function emptyText(holes) {
  if (holes.length === 0) return 'Nothing was used in this time.';
  return holes.some(({ kind }) => kind === 'before')
    ? 'No usage is known. Usage before metering began is unknown.'
    : 'No usage is known, and a part of this time was not measured: see Gaps.';
}
