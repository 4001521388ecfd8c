/** What the tab keeps for the browser that keeps nothing, as one may that shows a page inside another's. @type {Map<string, string>} */
const memory = new Map();

/** Texts that live as long as this tab, or, where the browser refuses that, as this page. */
export const tab = {
  /** @param {string} key @returns {string | null} */
  get: (key) => {
    try {
      return sessionStorage.getItem(key) ?? memory.get(key) ?? null;
    } catch {
      return memory.get(key) ?? null;
    }
  },
  /** @param {string} key @param {string} value */
  set: (key, value) => {
    memory.set(key, value);
    try {
      sessionStorage.setItem(key, value);
    } catch {
      // It is in the memory.
    }
  },
};
