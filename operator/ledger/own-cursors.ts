/**
 * The cursor of what prepaid balances have used (docs/how-to/budgets.md#prepaid): events behind it are in the records that it
 * was committed with, and none before it is deleted. No destination can have its name.
 */
export const PREPAID_CURSOR = 'budgets/used';

/** Whether a cursor is the operator's own, and no destination's. */
export function isOwnCursor(name: string): boolean {
  return name === PREPAID_CURSOR;
}
