import { html, useEffect, useRef } from './preact.js';
import uPlot from './vendor/uplot.js';
import { quantity } from './format.js';

/** Told apart by colour-blind readers too, in both themes. */
const COLOURS = [
  '#3d7fdb',
  '#e08a1e',
  '#2c9c69',
  '#c95bb0',
  '#8a6fd8',
  '#c4483c',
  '#4fb0c6',
  '#93a32b',
  '#8b95a3',
];
const HEIGHT = 260;
const HOUR_S = 3600;

/** @typedef {{ name: string, values: number[] }} Series */

/**
 * Series over time as stacked areas, with the same figures as a table underneath.
 * @param {{ title: string, unit: string, times: number[], series: Series[] }} properties times in seconds
 */
export function StackedChart({ title, unit, times, series }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    const element = place.current;
    if (element === null || times.length === 0) return undefined;
    let plot = draw(element, times, series);
    const redraw = () => {
      plot.destroy();
      plot = draw(element, times, series);
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
  }, [times, series]);
  const total = series.reduce((sum, { values }) => sum + values.reduce((a, b) => a + b, 0), 0);
  if (total === 0) return html`<p class="empty">Nothing was measured in this time.</p>`;
  return html`
    <figure>
      <figcaption>${title}, ${unit}</figcaption>
      <div class="chart" role="img" aria-label=${`${title}: ${quantity(total)} ${unit} in all. The figures are in the table below.`} ref=${place}></div>
      <details>
        <summary>The same figures as a table</summary>
        <div class="scroll" tabindex="0" role="region" aria-label=${`${title}, figures`}>
          <table>
            <thead>
              <tr>
                <th scope="col">Time (UTC)</th>
                ${series.map(({ name }) => html`<th scope="col" class="number">${name}</th>`)}
              </tr>
            </thead>
            <tbody>
              ${times.map(
                (at, index) => html`
                  <tr>
                    <th scope="row">${new Date(at * 1000).toISOString().slice(0, 16).replace('T', ' ')}</th>
                    ${series.map(({ values }) => html`<td class="number">${quantity(values[index] ?? 0)}</td>`)}
                  </tr>
                `,
              )}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  `;
}

/** @param {HTMLElement} element @param {number[]} times @param {Series[]} series */
function draw(element, times, series) {
  const style = getComputedStyle(document.documentElement);
  const resolve = (/** @type {string} */ name) => colourOf(element, style.getPropertyValue(name));
  const [text, line] = [resolve('--muted'), resolve('--line')];
  // The last series lies at the bottom, so each is drawn down to the axis and covered by those below it.
  const stacked = series.map((_, first) =>
    times.map((__, at) =>
      series.slice(first).reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
    ),
  );
  const [, ...rest] = times;
  const end = (times.at(-1) ?? 0) + (rest[0] === undefined ? HOUR_S : rest[0] - (times[0] ?? 0));
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
      scales: { y: { range: (_, __, max) => [0, max <= 0 ? 1 : max * 1.05] } },
      axes: [
        { ...axis, values: (_, splits) => splits.map(timeMark) },
        { ...axis, size: 70, values: (_, splits) => splits.map(quantity) },
      ],
      series: [
        {
          label: 'UTC',
          value: (_, seconds) =>
            seconds === null ? '' : new Date(seconds * 1000).toISOString().slice(0, 16),
        },
        ...series.map(({ name, values }, index) => {
          const colour = COLOURS[index % COLOURS.length] ?? '#888888';
          return {
            label: name,
            stroke: colour,
            fill: `${colour}cc`,
            width: 1,
            ...(steps === undefined ? {} : { paths: steps }),
            points: { show: false },
            value: (
              /** @type {uPlot} */ _,
              /** @type {number} */ __,
              /** @type {number} */ ___,
              /** @type {number | null} */ at,
            ) => (at === null ? '' : quantity(values[at] ?? 0)),
          };
        }),
      ],
    },
    // The last step needs an end.
    [[...times, end], ...stacked.map((line) => [...line, line.at(-1) ?? 0])],
    element,
  );
}

/** The hour, or the day where one begins. @param {number} seconds */
function timeMark(seconds) {
  const iso = new Date(seconds * 1000).toISOString();
  return iso.slice(11, 16) === '00:00' ? iso.slice(5, 10) : iso.slice(11, 16);
}

/** The colour that a CSS expression comes to here; a canvas understands no `light-dark()`. @param {HTMLElement} element @param {string} value */
function colourOf(element, value) {
  const probe = document.createElement('span');
  probe.style.color = value;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
