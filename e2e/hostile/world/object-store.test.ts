import { expect, test } from 'vitest';
import { asClientsSend, ObjectStore, placeOf } from './object-store.ts';

test('a client dates its own objects, which no API server would let it', () => {
  const store = new ObjectStore();
  const place = placeOf('/api/v1/namespaces/a/pods/b');
  if (place === undefined) throw new Error('no path');
  const metadata = { labels: { a: 'b' }, creationTimestamp: '2020-01-01T00:00:00Z', uid: 'mine' };
  const before = Date.now();
  const created = store.put(place, asClientsSend({ metadata, spec: {} }));
  const made = created['metadata'] as Readonly<Record<string, string>>;
  expect(Date.parse(made['creationTimestamp'] ?? '')).toBeGreaterThan(before - 1_001);
  expect(made['uid']).toBe('uid-pods-a-b');
  expect(made['labels']).toEqual({ a: 'b' });
  const changed = store.put(place, asClientsSend({ metadata, spec: { nodeName: 'n' } }));
  const stored = changed['metadata'] as Readonly<Record<string, string>>;
  expect(stored['creationTimestamp']).toBe(made['creationTimestamp']);
});
