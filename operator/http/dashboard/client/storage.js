/**
 * Stores texts in the browser. Where the browser refuses, as it may inside another page, the page
 * stores them.
 * @param {() => Storage} place throws where the browser refuses
 */
function textsIn(place) {
  /** @type {Map<string, string>} */
  const memory = new Map();
  return {
    /** @param {string} key @returns {string | null} */
    get: (key) => {
      try {
        return place().getItem(key) ?? memory.get(key) ?? null;
      } catch {
        return memory.get(key) ?? null;
      }
    },
    /** @param {string} key @param {string} value */
    set: (key, value) => {
      memory.set(key, value);
      try {
        place().setItem(key, value);
      } catch {
        // It is in the memory.
      }
    },
  };
}

/** Texts that live as long as this tab. */
export const tab = textsIn(() => sessionStorage);

/** Texts that stay in this browser: preferences of the reader, and nothing secret. */
export const browser = textsIn(() => localStorage);
