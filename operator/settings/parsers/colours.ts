import { contrast } from '../../model/contrast.ts';
import { invalid, type Parser, valid } from './parser.ts';

/** What the pages are drawn on, the less favourable of page and card (`http/dashboard/client/style.css`). */
export const CAUSES = { light: '#f6f7f9', dark: '#1c2027' } as const;

const COLOUR = /^#[0-9a-f]{6}$/i;
/** Of text to its ground (WCAG 2.2, 1.4.3). */
const LEAST_CONTRAST = 4.5;

/** A colour that links and buttons can be read in on the given ground. */
export function accentColour(cause: keyof typeof CAUSES): Parser<string> {
  return {
    accepts: `#rrggbb, with a contrast of ${LEAST_CONTRAST} to 1 at least`,
    parse(text) {
      if (!COLOUR.test(text)) return invalid('not a colour', 'write it as in #1f5fbf');
      const found = contrast(text, CAUSES[cause]);
      if (found >= LEAST_CONTRAST) return valid(text);
      const fix = `choose a ${cause === 'light' ? 'darker' : 'lighter'} one, of ${LEAST_CONTRAST}:1`;
      const shown = (Math.floor(found * 10) / 10).toFixed(1);
      return invalid(`hard to read on ${cause} ground, contrast ${shown}:1`, fix);
    },
  };
}
