import type { MeasuredCluster } from './measure.ts';
import { oneOf } from './plan-query.ts';
import type { Sample } from './query-answer.ts';

/** Labels of a tenant cluster in the platform's fleet observability. Only the pair is unique. */
export const PLATFORM_LABELS = ['vcluster_platform_instance', 'vcluster_platform_project'] as const;

/**
 * Matchers of all series of these tenant clusters. They also match other pairs of their instances
 * and projects.
 */
export function platformMatchers(subjects: readonly MeasuredCluster[]): string {
  const [instance, project] = PLATFORM_LABELS;
  return [
    oneOf(
      instance,
      subjects.map(({ cluster }) => cluster.instance ?? ''),
    ),
    oneOf(
      project,
      subjects.map(({ cluster }) => cluster.project ?? ''),
    ),
  ].join(',');
}

/** Identifies a tenant cluster by its instance and project. */
export function platformKeyOf({ cluster }: MeasuredCluster): string {
  return JSON.stringify([cluster.instance ?? '', cluster.project ?? '']);
}

/** The same key from the labels of a row. */
export function platformKey(labels: Sample['labels']): string {
  return JSON.stringify(PLATFORM_LABELS.map((label) => labels[label] ?? ''));
}
