import { createContext } from './preact.js';

/** Whether it is a hub that answers; undefined while that is not known. @type {import('preact').Context<boolean | undefined>} */
export const HubContext = createContext(/** @type {boolean | undefined} */ (undefined));
