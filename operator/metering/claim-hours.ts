import type { AllocatedDevice } from '../observation/resource-claim.ts';
import { claimedGpus } from './claimed-gpus.ts';
import { type ClaimUse, claimUses } from './claim-use.ts';
import { createDeviceCatalogue } from './device-catalogue.ts';
import { createGpuCharges } from './gpu-charges.ts';
import type { Meter } from './meter.ts';
import { nodesByName } from './node-stretches.ts';
import { isExcludedNamespace } from './own-nodes.ts';
import { visitPieces } from './pieces.ts';

/**
 * GPU hours of resource claims (design 7, DRA): while a pod runs that a claim is reserved for, its
 * devices are charged once, however many such pods there are; with `podLifetime: scheduled` from
 * allocation on. Downtime and whole nodes as for GPUs of device plugins.
 */
export const meterClaimedGpus: Meter = (input) => {
  const { observation, settings } = input;
  const { draGpuDrivers: drivers } = settings;
  const catalogue = createDeviceCatalogue(observation.resourceSlices);
  const nodeAt = nodesByName(input);
  const charge = createGpuCharges(input);
  /** Where the claim's GPUs are; undefined when it has none. */
  const nodeOf = ({ node, allocation }: ClaimUse): string | undefined => {
    const gpu = allocation.devices.find(({ driver }) => drivers.includes(driver));
    // Drivers of devices that are tied to a node name the pool after it.
    return gpu && (node ?? gpu.pool);
  };
  const lateNodes = new Set([...observation.nodes.late()].map(({ name }) => name));
  visitPieces(
    input,
    claimUses(observation),
    ({ state, cluster, timeline, from, to, asBilled, carried, weight }) => {
      if (state.phase === 'held' && cluster.metering.podLifetime === 'running') return;
      if (isExcludedNamespace(input, cluster, timeline.namespace)) return;
      const nodeName = nodeOf(state);
      if (nodeName === undefined) return;
      const claim = { labels: state.labels, node: nodeName };
      const holder = {
        kind: 'ResourceClaim',
        object: timeline,
        state: claim,
        cluster,
        nodeName,
        carried,
        weight,
      } as const;
      for (const stretch of nodeAt(nodeName, from, to, asBilled)) {
        const published = (device: AllocatedDevice) => catalogue.find(device, stretch.from);
        for (const held of claimedGpus(state, stretch.state, drivers, published)) {
          charge(holder, stretch, held);
        }
      }
    },
    lateNodes.size === 0
      ? undefined
      : ({ spans }) => spans.some(({ state }) => lateNodes.has(nodeOf(state) ?? '')),
  );
};
