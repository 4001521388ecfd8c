/**
 * The cursor of prepaid balances (docs/how-to/budgets.md#prepaid). Usage up to it is in the records
 * committed with it, and events after it are not deleted. No destination can have its name.
 */
export const PREPAID_CURSOR = 'budgets/used';

/** Whether a cursor belongs to the operator itself, not to a destination. */
export function isOwnCursor(name: string): boolean {
  return name === PREPAID_CURSOR;
}
