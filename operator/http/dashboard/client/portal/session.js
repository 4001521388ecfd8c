import { token } from '../api.js';
import { tab } from '../storage.js';

const TOKEN_KEY = 'meterfeed-portal-token';
const THEME_KEY = 'meterfeed-portal-theme';
const THEMES = ['light', 'dark'];

/**
 * What the address says after `#`: the token, and the theme that a page around this one wishes for. It goes out of the
 * address at once, so that it is in no history and in no link that somebody copies.
 * @returns {boolean} whether there was anything
 */
export function takeFragment() {
  token.keepAs(TOKEN_KEY);
  const given = new URLSearchParams(location.hash.slice(1));
  const [held, theme] = [given.get('token'), given.get('theme')];
  if (held !== null) token.set(held);
  if (theme !== null) tab.set(THEME_KEY, THEMES.includes(theme) ? theme : '');
  const chosen = tab.get(THEME_KEY) ?? '';
  if (chosen === '') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = chosen;
  const isTaken = held !== null || theme !== null;
  if (isTaken) history.replaceState(null, '', `${location.pathname}#/`);
  return isTaken;
}

/** Whose usage the token is for, as it says itself; the operator checks it. Empty where there is none. @returns {string} */
export function tenantOfToken() {
  try {
    const [, claims = ''] = token.get().split('.');
    const text = atob(claims.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    return String(JSON.parse(new TextDecoder().decode(bytes)).sub ?? '');
  } catch {
    return '';
  }
}
