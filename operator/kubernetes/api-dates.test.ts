import { describe, expect, test } from 'vitest';
import { lastWriteOf, newestDateOf } from './api-dates.ts';

const time = '2026-03-01T12:00:07Z';
const at = Date.parse(time);
const metadata = {
  creationTimestamp: '2026-03-01T12:00:00Z',
  managedFields: [{ time: '2026-03-01T12:00:03Z' }, { time }, 'nonsense'],
};

describe('what an object says of when it was written', () => {
  test('is the newest of its dates', () => {
    expect(newestDateOf({ metadata })).toBe(at);
    expect(lastWriteOf({ metadata })).toBe(at);
    expect(newestDateOf({ metadata: { creationTimestamp: time } })).toBe(at);
    expect(newestDateOf({})).toBeUndefined();
  });

  test('is that its deletion was asked for, and not when it has to be gone', () => {
    const asked = { ...metadata, deletionTimestamp: '2026-03-01T12:00:39Z' };
    const deleted = { ...asked, deletionGracePeriodSeconds: 30 };
    expect(newestDateOf({ metadata: deleted })).toBe(at + 2_000);
    expect(lastWriteOf({ metadata: deleted })).toBe(at);
    const nonsense = { ...asked, deletionGracePeriodSeconds: 'soon' };
    expect(newestDateOf({ metadata: nonsense })).toBe(at);
  });

  test('is not when somebody has taken its dates away', () => {
    const emptied = { ...metadata, managedFields: [{}] };
    expect(lastWriteOf({ metadata: emptied })).toBeUndefined();
    expect(newestDateOf({ metadata: emptied })).toBe(Date.parse(metadata.creationTimestamp));
  });
});
