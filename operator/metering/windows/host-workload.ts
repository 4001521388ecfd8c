import { type ControlPlaneWorkload, controlPlaneWorkload } from '../../discovery/vcluster/views.ts';
import type { ResumePoint } from '../../kubernetes/reflector-options.ts';
import type { Projection } from '../../kubernetes/source.ts';
import { projectWorkload, type WorkloadView } from '../timelines/retained-objects.ts';
import type { ResumableWorkloads } from './journal.ts';

/** One copy of a workload for both who look at it: whose it is, and when it was ready. */
export type HostWorkload = ControlPlaneWorkload &
  WorkloadView & {
    /** The resource that it was read of. */
    readonly plural: WorkloadPlural;
    /** By which its annotations were chosen. */
    readonly labelPrefix: string;
  };

export type WorkloadPlural = 'statefulsets' | 'deployments';

/** How a workload was read. */
interface Reading {
  readonly plural: WorkloadPlural;
  readonly labelPrefix: string;
}

/** Takes control plane workloads of one resource. */
export function hostWorkload({ plural, labelPrefix }: Reading): Projection<HostWorkload> {
  const identify = controlPlaneWorkload(labelPrefix);
  return (object) => {
    const identified = identify(object);
    const observed = identified === undefined ? undefined : projectWorkload(object);
    return identified && observed && { ...observed, ...identified, plural, labelPrefix };
  };
}

/**
 * Where the watch of one resource resumes. One journal holds the workloads of both, as they were read then:
 * what was read by another label prefix, or by a release that kept less of it, is listed again, since objects
 * that do not change are not sent again.
 */
export function resumeWorkloads(
  resume: ResumableWorkloads | undefined,
  { plural, labelPrefix }: Reading,
): ResumePoint<HostWorkload> | undefined {
  if (resume === undefined) return undefined;
  const { knownAt, objects, watches } = resume;
  const complete = objects.filter(isHostWorkload);
  const own = complete.filter((workload) => workload.plural === plural);
  const isCurrent =
    complete.length === objects.length && own.every((each) => each.labelPrefix === labelPrefix);
  const point = watches[plural];
  if (!isCurrent || point === undefined) return { knownAt, objects: own };
  return { ...point, objects: own };
}

function isHostWorkload(workload: WorkloadView): workload is HostWorkload {
  return ['metadata', 'release', 'serviceAccount', 'plural', 'labelPrefix'].every(
    (field) => field in workload,
  );
}
