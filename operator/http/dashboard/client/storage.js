/**
 * Texts that a browser keeps, or, where it refuses that as it may inside another page, that this page keeps.
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

/** Texts that stay in this browser: how a reader likes things, and nothing that is secret. */
export const browser = textsIn(() => localStorage);
