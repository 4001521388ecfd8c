import { describe, expect, test } from 'vitest';
import { objectLabels, sameLabels, sameOwnerLabels } from './object-labels.ts';

const of = (labels: Readonly<Record<string, string>>) => objectLabels({ labels });

describe('time of an object is billed to nobody, since labels are read that an older version did not read', () => {
  const server = { app: 'broker', cluster: 'broker', role: 'server' };
  const before = { app: 'broker' };

  test('what came out of its journal has the same owner', () => {
    expect(sameOwnerLabels(before, of(server))).toBe(true);
    expect(sameLabels(before, of(server))).toBe(false);
  });

  test('two that name different tenant clusters have not', () => {
    const synced = (name: string) => of({ 'k3k.io/clusterName': name });
    expect(sameOwnerLabels(synced('a'), synced('b'))).toBe(false);
    expect(sameOwnerLabels(synced('a'), synced('a'))).toBe(true);
  });
});
