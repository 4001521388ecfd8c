import { expect, test } from 'vitest';
import { type ConditionClaim, conditionsOf, conditionEvents } from './conditions.ts';
import { destinationClaims } from './destination-status.ts';
import { progressOf } from './testing/facts.ts';
import type { DestinationProgress } from './views.ts';

const accepted = { kind: 'accepted' } as const;

/** The reasons that `kubectl describe` tells as these states follow each other. */
function story(...states: readonly (readonly ConditionClaim[])[]): readonly string[] {
  let conditions: ReturnType<typeof conditionsOf> = [];
  return states.flatMap((claims, at) => {
    const next = conditionsOf(claims, conditions, 1, at);
    const reported = conditionEvents(conditions, next);
    conditions = next;
    return reported.map(({ type, reason, message }) => `${type} ${reason}: ${message}`);
  });
}

const claims = (progress: Partial<DestinationProgress>, suspended = false) =>
  destinationClaims({
    specStatus: accepted,
    suspended,
    progress: progressOf('lago', { suspended, ...progress }),
  });

test('what became of a destination overnight cannot be seen in the morning', () => {
  const reported = story(
    destinationClaims({ specStatus: accepted, suspended: false, progress: undefined }),
    claims({}),
    claims({ blocked: 'HTTP 401', lastError: 'HTTP 401' }),
    claims({ blocked: 'HTTP 403', lastError: 'HTTP 403' }),
    claims({}),
    claims({ deadLetters: 2 }),
    claims({ deadLetters: 3 }),
    claims({}),
    claims({}, true),
    claims({}),
  );
  expect(reported).toStrictEqual([
    'Normal Delivering: Events are delivered as windows close',
    expect.stringMatching(/^Warning Blocked: HTTP 401; nothing is sent until this is fixed/),
    'Normal Resumed: Events are delivered as windows close, after Blocked',
    expect.stringMatching(/^Warning EventsRefused: Some events cannot be delivered/),
    'Normal Resolved: Condition ended: DeadLetters (EventsRefused)',
    'Normal Suspended: Delivery is suspended by spec.suspend',
    'Normal Resumed: Events are delivered as windows close, after Suspended',
  ]);
});

test('a restart of the operator reports everything again', () => {
  const before = conditionsOf(claims({ deadLetters: 1 }), [], 1, 0);
  expect(conditionEvents(before, conditionsOf(claims({ deadLetters: 1 }), before, 1, 9))).toEqual(
    [],
  );
});
