import htm from './vendor/htm.js';
import { h } from './vendor/preact.js';

export { createContext, render } from './vendor/preact.js';
export {
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from './vendor/hooks.js';

/** Elements out of a template: text in it is always text, never markup. */
export const html = htm.bind(h);
