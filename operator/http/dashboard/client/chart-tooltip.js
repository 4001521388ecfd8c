import { clock, quantity } from './format.js';
import { isUnknown, notesOf } from './holes.js';

/** @typedef {import('./chart-draw.js').Drawing} Drawing */

/**
 * A tooltip with the values of the step under the pointer. Names of series are text, never markup.
 * @param {Drawing} drawing
 * @returns {import('./vendor/uplot.js').default.Plugin}
 */
export function createTooltip(drawing) {
  const box = document.createElement('div');
  box.className = 'tooltip';
  box.hidden = true;
  return {
    hooks: {
      init: (plot) => {
        plot.over.append(box);
        plot.over.addEventListener('mouseleave', () => {
          box.hidden = true;
        });
      },
      setCursor: (plot) => {
        const { left = -1 } = plot.cursor;
        const index = Math.floor(
          (plot.posToVal(left, 'x') - (drawing.times[0] ?? 0)) / drawing.step,
        );
        box.hidden = left < 0 || index < 0 || index >= drawing.times.length;
        if (box.hidden) return;
        box.replaceChildren(...linesOf(drawing, index));
        const onTheLeft = left > plot.over.clientWidth / 2;
        box.style.left = onTheLeft ? '' : `${left + 12}px`;
        box.style.right = onTheLeft ? `${plot.over.clientWidth - left + 12}px` : '';
      },
    },
  };
}

/** @param {Drawing} drawing @param {number} index */
function linesOf({ times, step, series, colours, decimals, running, holes }, index) {
  const at = times[index] ?? 0;
  const from = clock(new Date(at * 1000).toISOString());
  const isRunning = running && index === times.length - 1;
  const notes = [...(isRunning ? ['still running'] : []), ...notesOf(holes, at, step)];
  const head = element('p', 'head', `${from} UTC${notes.map((note) => `, ${note}`).join('')}`);
  const lines = series.flatMap(({ name, values }, place) => {
    const value = values[index] ?? 0;
    if (value === 0) return [];
    const line = element('p', '', '');
    const swatch = element('span', 'swatch', '');
    swatch.style.background = colours[place] ?? '';
    line.append(
      swatch,
      element('span', 'name', name),
      element('span', 'amount', quantity(value, decimals)),
    );
    return [line];
  });
  if (lines.length > 0) return [head, ...lines];
  return [head, element('p', '', isUnknown(holes, at, step) ? 'unknown' : 'nothing')];
}

/** @param {string} tag @param {string} className @param {string} text */
function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
