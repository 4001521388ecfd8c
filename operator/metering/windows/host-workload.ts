import { type ControlPlaneWorkload, controlPlaneWorkload } from '../../discovery/vcluster/views.ts';
import type { ResumePoint } from '../../kubernetes/reflector-options.ts';
import type { Projection } from '../../kubernetes/source.ts';
import { projectWorkload, type WorkloadView } from '../timelines/retained-objects.ts';
import type { ResumableWorkloads } from './journal.ts';

/** One workload, read once for discovery and for metering: its owner, and when it was ready. */
export type HostWorkload = ControlPlaneWorkload &
  WorkloadView & {
    /** The resource that it belongs to. */
    readonly plural: WorkloadPlural;
    /** The label prefix that selected its annotations. */
    readonly labelPrefix: string;
  };

export type WorkloadPlural = 'statefulsets' | 'deployments';

/** How a workload was read. */
interface WorkloadReading {
  readonly plural: WorkloadPlural;
  readonly labelPrefix: string;
}

/** Projects control plane workloads of one resource. */
export function hostWorkload({ plural, labelPrefix }: WorkloadReading): Projection<HostWorkload> {
  const identify = controlPlaneWorkload(labelPrefix);
  return (object) => {
    const identified = identify(object);
    const observed = identified === undefined ? undefined : projectWorkload(object);
    return identified && observed && { ...observed, ...identified, plural, labelPrefix };
  };
}

/**
 * Where the watch of one resource resumes. The journal has the workloads of both resources as they
 * were read then. In two situations the watch lists again, because unchanged objects are not sent
 * again:
 * 1. Another label prefix was in force.
 * 2. An earlier release stored fewer fields.
 */
export function resumeWorkloads(
  resume: ResumableWorkloads | undefined,
  { plural, labelPrefix }: WorkloadReading,
): ResumePoint<HostWorkload> | undefined {
  if (resume === undefined) return undefined;
  const { knownAt, objects, watches } = resume;
  const complete = objects.filter(isHostWorkload);
  const ofResource = complete.filter((workload) => workload.plural === plural);
  const isCurrent =
    complete.length === objects.length &&
    ofResource.every((each) => each.labelPrefix === labelPrefix);
  const point = watches[plural];
  if (!isCurrent || point === undefined) return { knownAt, objects: ofResource };
  return { ...point, objects: ofResource };
}

function isHostWorkload(workload: WorkloadView): workload is HostWorkload {
  return ['metadata', 'release', 'serviceAccount', 'plural', 'labelPrefix'].every(
    (field) => field in workload,
  );
}
