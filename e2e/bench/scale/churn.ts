import type { PodSlot, Size } from './population.ts';

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

/** The pods of a simulated cluster, and how they come, change and go. */
export interface Churn {
  pod(slot: number): PodSlot;
  /** One change of some pod, as the control plane would make it at `now`. */
  next(now: number): { readonly type: ChangeType; readonly pod: PodSlot };
}

type Stage = PodSlot['stage'];

const STAGES: readonly Stage[] = ['running', 'succeeded', 'pending', 'bound'];

interface Step {
  readonly slot: number;
  readonly notBefore: number;
}

/** Of ten changes that find no pod on its way, this many begin a replacement; the others are new labels. */
const REPLACEMENTS = 4;

/**
 * A pod that is replaced finishes, is deleted, and its successor is created, bound and started, each
 * a change of its own; in between, labels of running pods change. Control planes stay.
 */
export function createChurn(size: Size, bornAt: number): Churn {
  const stages = new Uint8Array(size.pods);
  const incarnations = new Uint32Array(size.pods);
  const revisions = new Uint32Array(size.pods);
  const created = new Float64Array(size.pods).fill(bornAt);
  const underWay: Step[] = [];
  let slice = 0;

  const pod = (slot: number): PodSlot => ({
    slot,
    incarnation: incarnations[slot] ?? 0,
    stage: STAGES[stages[slot] ?? 0] ?? 'running',
    createdAt: created[slot] ?? bornAt,
    revision: revisions[slot] ?? 0,
  });

  const become = (slot: number, stage: Stage, now: number, restMs: number): void => {
    stages[slot] = STAGES.indexOf(stage);
    if (restMs > 0) underWay.push({ slot, notBefore: now + restMs });
  };

  const advance = (slot: number, now: number): { type: ChangeType; pod: PodSlot } => {
    switch (STAGES[stages[slot] ?? 0]) {
      case 'succeeded': {
        const last = pod(slot);
        incarnations[slot] = last.incarnation + 1;
        created[slot] = 0;
        become(slot, 'pending', now, 1);
        return { type: 'DELETED', pod: last };
      }
      case 'pending': {
        if (created[slot] !== 0) {
          become(slot, 'bound', now, 2500);
          return { type: 'MODIFIED', pod: pod(slot) };
        }
        created[slot] = now;
        become(slot, 'pending', now, 500);
        return { type: 'ADDED', pod: pod(slot) };
      }
      case 'bound':
        become(slot, 'running', now, 0);
        return { type: 'MODIFIED', pod: pod(slot) };
      default:
        become(slot, 'succeeded', now, 1000);
        return { type: 'MODIFIED', pod: pod(slot) };
    }
  };

  return {
    pod,
    next: (now) => {
      const due = underWay.findIndex((step) => step.notBefore <= now);
      const [step] = due === -1 ? [] : underWay.splice(due, 1);
      if (step !== undefined) return advance(step.slot, now);
      slice += 1;
      const slot = size.tenants + ((slice * 7919) % Math.max(1, size.pods - size.tenants));
      if (stages[slot] === 0 && slice % 10 < REPLACEMENTS) return advance(slot, now);
      revisions[slot] = (revisions[slot] ?? 0) + 1;
      return { type: 'MODIFIED', pod: pod(slot) };
    },
  };
}
