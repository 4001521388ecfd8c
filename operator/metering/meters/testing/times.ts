export const HOUR = 3_600_000;

/** The start of the first window of every test: a full hour. */
export const START = Date.parse('2026-03-01T12:00:00Z');
