import { expect } from 'vitest';
import type { Account } from '../account.ts';
import { exact, sum, textOf } from '../exact.ts';

/**
 * Expects that every event is on one final line or has a reason for being on none, and that lines
 * have exactly the invoiced events.
 */
export function expectAccountedFor({ events, invoices }: Account): void {
  for (const { lines, fate } of events) {
    expect(fate.kind).not.toBe('open');
    expect(lines).toBe(fate.kind === 'invoiced' ? 1 : 0);
  }
  const units = (list: readonly { readonly units: string }[]) =>
    textOf(sum(list.map((one) => exact(one.units))));
  const invoiced = events.filter(({ fate }) => fate.kind === 'invoiced');
  const final = invoices.filter(({ isFinal }) => isFinal);
  expect(units(final.flatMap(({ lines }) => lines))).toBe(units(invoiced));
}
