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
import type { FeederOptions } from './feeder-options.ts';

/** Compares what a destination was given with what it has, and with what it invoices. */
export class Inspection {
  /** Whether the destination is to get an event. */
  readonly wants: (event: Pick<UsageEvent, 'metric' | 'unit'>) => boolean;
  readonly reconcile: Reconcile;
  /** Absent where the destination makes no invoices, or cannot tell of them. */
  readonly invoices: InvoiceReconcile | undefined;
  readonly predictCorrection: PredictCorrection;
  readonly closedPeriods: ClosedPeriods;
  /** Codes that the settings name and the catalogue lacks. */
  readonly unknownMetrics: () => readonly string[];

  /** `recheck` has a tenant provisioned again, used or not. */
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
