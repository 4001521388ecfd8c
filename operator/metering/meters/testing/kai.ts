import type { RawObject } from '../../../kubernetes/source.ts';
import { N1, type NodeFixture, variant } from './gpu-nodes.ts';
import { SYNCED_LABELS, pod, type PodFixture } from './objects.ts';

/** Nodes and pods as KAI Scheduler's binder and Run:ai annotate them. */

/** Eight H100 with a label for their memory, in MiB. */
export const KAI: NodeFixture = variant(N1, { labels: { 'nvidia.com/gpu.memory': '81920' } });

/**
 * The label of one group stands alone; those of a pod on several devices have their names in the
 * key.
 */
function groupLabels(groups: readonly string[]): Readonly<Record<string, string>> {
  const [only, ...others] = groups;
  if (only === undefined) return {};
  if (others.length === 0) return { 'runai-gpu-group': only };
  return Object.fromEntries(groups.map((group) => [`runai-gpu-group/${group}`, group]));
}

/** A tenant's pod with its requests, and the groups that the binder put it into. */
export function fractionPod(
  name: string,
  annotations: Readonly<Record<string, string>>,
  groups: readonly string[] = [],
  fixture: Partial<PodFixture> = {},
): RawObject {
  const { labels = SYNCED_LABELS, ...rest } = fixture;
  return pod({
    name,
    node: 'n1',
    ...rest,
    labels: { ...labels, ...groupLabels(groups) },
    metadata: { annotations },
  });
}

/** The reservation pod of a group. */
export function reservation(
  group: string,
  namespace = 'kai-resource-reservation',
  fixture: Partial<PodFixture> = {},
): RawObject {
  return pod({
    name: `gpu-reservation-${group}`,
    namespace,
    node: 'n1',
    labels: { app: namespace, 'runai-gpu-group': group },
    containers: [{ 'nvidia.com/gpu': 1 }],
    ...fixture,
  });
}
