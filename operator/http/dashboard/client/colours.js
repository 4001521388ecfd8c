import { OTHERS } from './series.js';
import { tab } from './storage.js';

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
];
const OTHERS_COLOUR = '#8b95a3';
const KEY = 'meterfeed-colours';
/** More keys than this are not remembered. */
const MOST = 500;

/** The place of each key in the order in which this tab first saw it. @type {Map<string, number>} */
const places = new Map(remembered());

/**
 * A colour for each series: the one that it had before on any page of this tab, unless a larger
 * series of this chart has it.
 * @param {string[]} keys of the series, the largest first
 * @returns {string[]}
 */
export function coloursOf(keys) {
  const taken = new Set();
  const colours = keys.map((key) => {
    if (key === OTHERS) return OTHERS_COLOUR;
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
  const place = places.get(key) ?? places.size;
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
