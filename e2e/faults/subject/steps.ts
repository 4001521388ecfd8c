import type { Failpoint } from '../../../operator/ledger/leveldb/failpoints.ts';

/** Where the delivery engine touches the world, before and after. */
export type DeliveryStep =
  | 'bootstrap:before'
  | 'bootstrap:after'
  | 'provision:before'
  | 'provision:after'
  | 'in-flight:before'
  | 'in-flight:after'
  | 'send:before'
  | 'send:after'
  | 'verify:before'
  | 'verify:after'
  | 'cursor:before'
  | 'cursor:after';

/** Every step at which a process may die by appointment. */
export type StepName = Failpoint | DeliveryStep;

/** Steps that every life reaches. */
export const DELIVERY_STEPS: readonly DeliveryStep[] = [
  'bootstrap:before',
  'bootstrap:after',
  'provision:before',
  'provision:after',
  'in-flight:before',
  'in-flight:after',
  'send:before',
  'send:after',
  'cursor:before',
  'cursor:after',
];
/** Reached when an answer is missing for longer than the destination remembers ids. */
export const VERIFY_STEPS: readonly StepName[] = ['verify:before', 'verify:after'];
export const SET_UP_STEPS: readonly StepName[] = [
  'set-up:before-head',
  'set-up:before-identity',
  'set-up:after-identity',
];
export const APPEND_STEPS: readonly StepName[] = ['append:before-write', 'append:after-write'];
/** Reached when a segment is full. */
export const ROLL_STEPS: readonly StepName[] = [
  'roll:before-create',
  'roll:before-rename',
  'roll:after-rename',
  'roll:before-open',
];
/** Reached when there is something to delete. */
export const RETENTION_STEPS: readonly StepName[] = [
  'retain:before-forget',
  'retain:after-forget',
  'retain:after-rename',
];
