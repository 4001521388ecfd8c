import { chargeIdentity } from './charge-identity.ts';
import type { Meter } from './meter.ts';
import { ownDimensions } from './own-nodes.ts';
import { visitPieces } from './pieces.ts';
import { addTo, count } from './tally.ts';

/** Bound volume claims by storage class, mounted or not (design 7, Storage). */
export const meterStorage: Meter = (input) => {
  const counted = new Set<unknown>();
  const dimensions = ownDimensions(input);
  visitPieces(input, input.observation.volumes, (piece) => {
    const { cluster, state, timeline, from, to, carried, weight } = piece;
    const sku = state.storageClass;
    const charge = input.tally.charge(
      chargeIdentity(cluster, 'tenant_storage_gb_hours', input.settings, { sku, dimensions }),
    );
    const { start } = input.window;
    const bounds = { from: from - start, to: to - start };
    const kind = 'PersistentVolumeClaim';
    const evidence = { kind, object: timeline, state, ...bounds, carried } as const;
    addTo(charge, { carried, weight, ms: to - from }, state.size, evidence);
    if (!carried && !counted.has(timeline)) count(charge, 'volumes');
    counted.add(timeline);
  });
};
