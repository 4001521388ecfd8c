import { chargeIdentity } from './charge-identity.ts';
import type { Meter } from './meter.ts';
import { ownDimensions } from './own-nodes.ts';
import { visitPieces } from './pieces.ts';
import { addTo, count } from './tally.ts';

const ONE = 1_000_000_000n;

/** Services of type LoadBalancer while they have an ingress address, each one load balancer (design 7). */
export const meterLoadBalancers: Meter = (input) => {
  const counted = new Set<unknown>();
  const dimensions = ownDimensions(input);
  visitPieces(input, input.observation.loadBalancers, (piece) => {
    const { cluster, timeline, carried, weight } = piece;
    const charge = input.tally.charge(
      chargeIdentity(cluster, 'tenant_lb_hours', input.settings, { dimensions }),
    );
    addTo(charge, { carried, weight, ms: piece.to - piece.from }, ONE);
    if (!carried && !counted.has(timeline)) count(charge, 'load_balancers');
    counted.add(timeline);
  });
};
