import type { StatusPublisher, StatusTarget } from '../kubernetes/status-publisher.ts';
import type { Condition } from '../kubernetes/conditions.ts';
import type { EventRecorder } from '../kubernetes/events.ts';
import type { Clock } from '../telemetry/clock.ts';
import { type ConditionClaim, conditionsOf } from './conditions.ts';
import { transitions } from './transitions.ts';
import type { ControlledKind, Report } from './controller.ts';
import type { CustomObject } from './custom-object.ts';
import type { Verdict } from './verdict.ts';

/** Tells people what becomes of the objects of one kind: status for what is, events for what happened. */
export interface ObjectReporter<Spec> {
  /** The newest spec has been looked at. */
  judged(object: CustomObject<Spec>, verdict: Verdict): void;
  /** Time has passed; the engine may have moved on. */
  refresh(object: CustomObject<Spec>): void;
  /** The object is being deleted, and what it stands for cannot be put away. */
  removalFailed(object: CustomObject<Spec>, finalizer: string): void;
  /** What the object stands for is put away. */
  removed(object: CustomObject<Spec>, note: string): void;
  /** The object is gone. */
  forget(object: CustomObject<Spec>): void;
}

export interface ObjectReporterOptions {
  readonly status: StatusPublisher;
  readonly events: EventRecorder;
  readonly clock: Clock;
}

interface Judged {
  readonly generation: number;
  readonly verdict: Verdict;
  /** As last published; undefined before that. */
  readonly conditions: readonly Condition[] | undefined;
}

/** How long after a start an older status is better than "not known yet". */
const SETTLING_MS = 60_000;

export function createObjectReporter<Spec>(
  kind: ControlledKind<Spec>,
  { status, events, clock }: ObjectReporterOptions,
): ObjectReporter<Spec> {
  const startedAt = clock.monotonic();
  const known = new Map<string, Judged>();

  /** Events only where something happened: another spec was taken up, or could not be. */
  function tell(object: CustomObject<Spec>, verdict: Verdict, before: Judged | undefined): void {
    const was = before?.verdict;
    if (verdict.kind === 'invalid') {
      if (was?.kind === 'invalid' && was.message === verdict.message) return;
      record(object, 'Warning', verdict.reason, verdict.message);
      return;
    }
    const lookedAt = before?.generation ?? object.observedGeneration;
    const taken = lookedAt !== object.generation || was?.kind === 'invalid';
    if (verdict.kind === 'accepted' && taken) {
      record(object, 'Normal', 'Configured', 'The settings are in force');
    }
  }

  function record(
    object: CustomObject<Spec>,
    type: 'Normal' | 'Warning',
    reason: string,
    note: string,
  ): void {
    const { name, uid } = object;
    const { group, version } = kind.resource;
    const regarding = { apiVersion: `${group}/${version}`, kind: kind.kind, name, uid };
    events.record({ regarding, type, reason, action: 'Reconcile', note });
  }

  /** A restart is no transition: until the engine has looked, the status from before it stays. */
  function report(object: CustomObject<Spec>, { verdict, conditions }: Judged): void {
    const said = kind.report(object, verdict);
    const starting = clock.monotonic() - startedAt < SETTLING_MS;
    const reported = object.observedGeneration === object.generation;
    if (!said.settled && starting && reported && conditions === undefined) return;
    publish(object, said);
  }

  function publish(object: CustomObject<Spec>, { claims, numbers }: Omit<Report, 'settled'>): void {
    const { name, uid, generation } = object;
    const judged = known.get(uid);
    const previous = judged?.conditions ?? object.conditions;
    const conditions = conditionsOf(claims, previous, generation, clock.now());
    const cause = 'lastError' in numbers ? ` (${String(numbers.lastError)})` : '';
    for (const { type, reason, message } of transitions(previous, conditions)) {
      record(object, type, reason, type === 'Warning' ? message + cause : message);
    }
    if (judged !== undefined) known.set(uid, { ...judged, conditions });
    const target: StatusTarget = { resource: kind.resource, kind: kind.kind, name, uid };
    status.publish(target, { ...numbers, conditions, observedGeneration: generation });
  }

  return {
    judged: (object, verdict) => {
      const { uid, generation } = object;
      const before = known.get(uid);
      const judged = { generation, verdict, conditions: before?.conditions };
      known.set(uid, judged);
      tell(object, verdict, before);
      report(object, judged);
    },
    refresh: (object) => {
      const judged = known.get(object.uid);
      // A newer spec is about to be looked at; until then the status speaks of the one before.
      if (judged?.generation === object.generation) report(object, judged);
    },
    removalFailed: (object, finalizer) => {
      publish(object, { claims: [removalFailing(finalizer)], numbers: {} });
    },
    removed: (object, note) => record(object, 'Normal', 'Removed', note),
    forget: ({ uid }) => {
      known.delete(uid);
      status.forget(uid);
    },
  };
}

function removalFailing(finalizer: string): ConditionClaim {
  const message = `What the object stands for could not be put away, and is tried again; removing the finalizer ${finalizer} by hand lets the object go without it`;
  return { type: 'Ready', status: 'False', reason: 'RemovalFailing', message };
}
