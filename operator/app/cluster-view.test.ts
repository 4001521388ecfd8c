import { expect, test } from 'vitest';
import { loadEnvironment } from '../settings/load-environment.ts';
import type { DiscoveryListener } from '../discovery/discovery.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { warnOfSmallVolume } from './cluster-view.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

const GIB = 1024 ** 3;

/** What is said when `clusters` tenant clusters are found on a volume with so much room. */
function warningsFor(clusters: number, roomBytes: number): string[] {
  const loaded = loadEnvironment({}, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('; '));
  const stated: string[] = [];
  const listeners = new Set<DiscoveryListener>();
  const logger = {
    debug: () => {},
    info: () => {},
    warn: (message: string) => void stated.push(message),
    error: () => {},
  };
  const stats = createMemoryLedger().stats();
  warnOfSmallVolume({
    discovery: {
      subscribe: (listener) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
    ledger: { stats: () => ({ ...stats, roomBytes }) },
    settings: () => loaded.settings,
    logger,
  });
  const found = Array.from({ length: clusters }, () => ({}) as never);
  for (let round = 0; round < 2; round += 1) {
    for (const listener of listeners) listener(found, 0);
  }
  return stated;
}

test('a volume fills up weeks after the install without a warning', () => {
  expect(warningsFor(1_000, 5 * GIB)).toEqual([
    '[controller] the volume is too small for RETENTION: DATA_DIR: "5.0 GiB" of about 31.3 GiB; enlarge it, lengthen COLLECTION_INTERVAL (spec.collectionInterval of the MeteringPolicy) or shorten RETENTION (spec.retention)',
  ]);
});

test('a volume that is large enough is warned of', () => {
  expect(warningsFor(100, 5 * GIB)).toEqual([]);
});
