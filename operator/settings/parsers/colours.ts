import { contrast } from '../../model/contrast.ts';
import { invalid, type Parser, valid } from './parser.ts';

/**
 * The background with the lower contrast, page or card, in each mode
 * (`http/dashboard/client/style.css`).
 */
export const BACKGROUNDS = { light: '#f6f7f9', dark: '#1c2027' } as const;

const COLOUR = /^#[0-9a-f]{6}$/i;
/** Contrast of text to its background (WCAG 2.2, 1.4.3). */
const LEAST_CONTRAST = 4.5;

/** A colour in which links and buttons are readable on the given background. */
export function accentColour(mode: keyof typeof BACKGROUNDS): Parser<string> {
  return {
    accepts: `#rrggbb, with a contrast of ${LEAST_CONTRAST} to 1 at least`,
    parse(text) {
      if (!COLOUR.test(text)) return invalid('not a colour', 'write it as in #1f5fbf');
      const found = contrast(text, BACKGROUNDS[mode]);
      if (found >= LEAST_CONTRAST) return valid(text);
      const fix = `choose a ${mode === 'light' ? 'darker' : 'lighter'} one, of ${LEAST_CONTRAST}:1`;
      const shown = (Math.floor(found * 10) / 10).toFixed(1);
      return invalid(`hard to read on a ${mode} background, contrast ${shown}:1`, fix);
    },
  };
}
