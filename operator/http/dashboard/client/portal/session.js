import { token } from '../api.js';
import { tab } from '../storage.js';

const TOKEN_KEY = 'meterfeed-portal-token';
const THEME_KEY = 'meterfeed-portal-theme';
const THEMES = ['light', 'dark'];

/**
 * Reads the token and the theme from the fragment of the address, and removes them at once. They
 * are then in no history and in no link that somebody copies.
 * @returns {boolean} whether there was anything
 */
export function takeFragment() {
  token.keepAs(TOKEN_KEY);
  const given = new URLSearchParams(location.hash.slice(1));
  const [bearer, theme] = [given.get('token'), given.get('theme')];
  if (bearer !== null) token.set(bearer);
  if (theme !== null) tab.set(THEME_KEY, THEMES.includes(theme) ? theme : '');
  const chosen = tab.get(THEME_KEY) ?? '';
  if (chosen === '') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = chosen;
  const isTaken = bearer !== null || theme !== null;
  if (isTaken) history.replaceState(null, '', `${location.pathname}#/`);
  return isTaken;
}

/**
 * The tenant in the claims of the token, which only the operator verifies. Empty without a token.
 * @returns {string}
 */
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
