import { OTHERS } from './series.js';
import { tab } from './storage.js';

/**
 * Distinct for colour-blind readers too, in both themes. There are more than a chart has series, so
 * that few share one.
 */
const COLOURS = [
  '#3d7fdb',
  '#e08a1e',
  '#2c9c69',
  '#c95bb0',
  '#8a6fd8',
  '#c4483c',
  '#4fb0c6',
  '#93a32b',
  '#9a6b45',
  '#d98a9b',
  '#5a7a52',
  '#5f6fa8',
];
const OTHERS_COLOUR = '#8b95a3';
/** Series that have the same colour on every chart. Red is for what is wrong. */
const FIXED = new Map([
  [OTHERS, OTHERS_COLOUR],
  ['state/In use', '#2c9c69'],
  ['state/Idle', OTHERS_COLOUR],
  ['state/Down', '#c4483c'],
]);
const KEY = 'meterfeed-colours';
/** More keys than this are not remembered. */
const MOST = 500;

/**
 * The number of each key among those of its kind, in the order in which this tab first showed them.
 * @type {Map<string, number>}
 */
const places = new Map(remembered());

/**
 * Returns a colour for each series: the same as on the other pages of this tab, unless a larger
 * series of this chart has it.
 * @param {string[]} keys of the series, `kind/value`, the largest first
 * @returns {string[]}
 */
export function coloursOf(keys) {
  // By name, so that every reader who sees the same models first sees them in the same colours.
  for (const key of keys.toSorted()) if (!FIXED.has(key)) placeOf(key);
  const taken = new Set();
  const colours = keys.map((key) => {
    const fixed = FIXED.get(key);
    if (fixed !== undefined) return fixed;
    const wish = placeOf(key) % COLOURS.length;
    const free = COLOURS.findIndex((_, offset) => !taken.has((wish + offset) % COLOURS.length));
    const chosen = (wish + Math.max(free, 0)) % COLOURS.length;
    taken.add(chosen);
    return COLOURS[chosen] ?? OTHERS_COLOUR;
  });
  tab.set(KEY, JSON.stringify([...places]));
  return colours;
}

/** @param {string} key */
function placeOf(key) {
  const kind = key.slice(0, key.indexOf('/') + 1);
  const place =
    places.get(key) ?? [...places.keys()].filter((other) => other.startsWith(kind)).length;
  if (places.size < MOST) places.set(key, place);
  return place;
}

/** @returns {[string, number][]} */
function remembered() {
  try {
    return JSON.parse(tab.get(KEY) ?? '[]');
  } catch {
    return [];
  }
}
