import type { UsageEvent } from '../../model/event.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import { type ClosedPeriods, createClosedPeriods } from '../operations/closed-periods.ts';
import {
  createCorrectionPrediction,
  type PredictCorrection,
} from '../operations/correction-prediction.ts';
import { InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import { createReconcile, type Reconcile } from '../operations/reconcile.ts';
import { createEventFilter, unknownMetrics } from './event-filter.ts';
import type { FeedRecords } from './feed-records.ts';
import type { FeederOptions } from '../delivery-options.ts';

/** Compares delivered usage with a destination's own sums, and with its invoices. */
export class Inspection {
  /** Returns whether the destination gets an event. */
  readonly wants: (event: Pick<UsageEvent, 'metric' | 'unit'>) => boolean;
  readonly reconcile: Reconcile;
  /** Absent if the destination makes no invoices, or does not report them. */
  readonly invoices: InvoiceReconcile | undefined;
  readonly predictCorrection: PredictCorrection;
  readonly closedPeriods: ClosedPeriods;
  /** Codes in the settings that are not in the catalogue. */
  readonly unknownMetrics: () => readonly string[];

  /** `recheck` requests that a tenant is provisioned again, with or without new usage. */
  constructor(
    options: FeederOptions,
    feed: FeedRecords,
    directory: TenantDirectory,
    recheck: (tenant: string) => void,
  ) {
    const { settings, destination, clock } = options;
    const find = (code: string) => options.catalog().find(code);
    const describe = (tenant: string) => directory.find(tenant);
    const wants = createEventFilter(destination, settings.metrics, find);
    const { ledger, records, deadLetters, changes, acknowledgements } = feed;
    const { lateLines, parked, pending } = feed;
    const sums = { ledger, records, deadLetters, changes, wants, describe };
    const { name, type, late } = settings;
    const { invoices, prices } = destination;
    const cursor = () => feed.cursor();
    this.wants = wants;
    this.unknownMetrics = () => unknownMetrics(settings.metrics, find);
    this.reconcile = createReconcile({
      ...sums,
      destination,
      acknowledgements,
      passed: () => {
        const at = feed.cursor() ?? 0;
        return (sequence) => sequence <= at;
      },
    });
    this.invoices =
      invoices &&
      new InvoiceReconcile({
        ...sums,
        name,
        type,
        invoices,
        unpriced: () => prices?.unpriced() ?? [],
        cursor: () => feed.cursor() ?? 0,
        recheck,
        clock,
      });
    this.closedPeriods = createClosedPeriods({
      invoices: this.invoices,
      changes,
      wants,
      effect: invoices?.closedPeriods,
      late,
    });
    this.predictCorrection = createCorrectionPrediction({
      destination,
      clock,
      records,
      deadLetters,
      lateLines,
      parked,
      pending,
      wants,
      cursor,
    });
  }
}
