import { createContext } from './preact.js';

/**
 * Whether the API is that of a hub; undefined while that is unknown.
 * @type {import('preact').Context<boolean | undefined>}
 */
export const HubContext = createContext(/** @type {boolean | undefined} */ (undefined));
