/** When an alert fires, as promtool tests it. */
export interface AlertCase {
  readonly alert: string;
  /** Samples in promtool's notation, one a minute. */
  readonly series: Readonly<Record<string, string>>;
  /** When nothing fires yet; after the last minute at which anything may. */
  readonly quietAt: string;
  /** When the alert fires, and those of `also`. */
  readonly firesAt: string;
  readonly also?: readonly string[];
}

const LAGO = '{destination="lago"}';
const PARIS = '{cluster="paris",destination="lago"}';
const ROME = '{cluster="rome",destination="lago"}';

/** Gauges: good for 20 minutes, then bad for good. */
const GAUGES: readonly AlertCase[] = [
  bad('MeterfeedWindowsLate', { meterfeed_window_lag_seconds: '0x20 900x40' }),
  bad('MeterfeedNobodyMeters', { meterfeed_leading: '1x20 0x40' }),
  bad('MeterfeedOtherInstallation', { meterfeed_refused_by_other_installation: '0x20 1x40' }),
  bad('MeterfeedUnaccountedGpuSeconds', { meterfeed_unaccounted_gpu_seconds: '0x20 8 0x40' }),
  bad('MeterfeedLedgerDamaged', { meterfeed_ledger_problems: '0x20 1x40' }),
  bad('MeterfeedVolumeFull', { meterfeed_ledger_disk_used_ratio: '0.5x20 0.95x40' }, [
    'MeterfeedVolumeFilling',
  ]),
  bad('MeterfeedVolumeFilling', { meterfeed_ledger_disk_used_ratio: '0.5x20 0.8x40' }),
  bad('MeterfeedNoStandby', { meterfeed_ledger_standby_missing: '0x20 1x40' }),
  bad('MeterfeedDestinationBlocked', { [`meterfeed_destination_blocked${LAGO}`]: '0x20 1x40' }),
  bad('MeterfeedDeliveryLag', { [`meterfeed_destination_lag_seconds${LAGO}`]: '0x20 1000x40' }),
  bad('MeterfeedDeadLetters', { [`meterfeed_destination_dead_letters${LAGO}`]: '0x20 1x40' }),
  bad('MeterfeedFailedTenantApis', { meterfeed_failed_tenant_apis: '0x20 1x40' }),
  bad('MeterfeedPrivateNodeDowntime', { meterfeed_private_node_downtime_exceeded: '0x20 1x40' }),
  bad('MeterfeedQuarantined', { meterfeed_quarantined_scopes: '0x20 1x40' }),
  bad('MeterfeedEnforcementPending', { meterfeed_enforcement_pending_objects: '0x20 1x40' }),
  bad('MeterfeedPrometheusUnreachable', { meterfeed_prometheus_unreachable: '0x20 1x40' }),
  bad('MeterfeedQueriesLeftOut', {
    'meterfeed_prometheus_not_selectable{metric="m",placeholder="project"}': '_x20 3x40',
  }),
  bad('MeterfeedFleetUnread', { meterfeed_fleet_problems: '0x20 1x40' }),
  bad('MeterfeedFleetMeterSilent', {
    'meterfeed_fleet_meter_silent_seconds{cluster="paris"}': '3x20 0+60x40',
  }),
  bad('MeterfeedFleetGaps', { 'meterfeed_fleet_gap_seconds{cluster="paris"}': '60x20 120x40' }),
  bad('MeterfeedFleetBehind', {
    [`meterfeed_destination_lag_seconds${PARIS}`]: '3x20 200x40',
    [`meterfeed_destination_lag_seconds${ROME}`]: '3x20 200x40',
  }),
  bad('MeterfeedBudgetThreshold', {
    'meterfeed_budget_threshold_reached_timestamp_seconds{percent="80"}': '_x20 1200x40',
  }),
  // Of samples that stop, Prometheus knows the last for five minutes.
  bad('MeterfeedSilent', { meterfeed_build_info: '1x20 _x40' }),
  bad('MeterfeedWatchStale', {
    'meterfeed_cache_last_contact_timestamp_seconds{resource="pods"}': '0x60',
  }),
];

/** The same with a sample every five minutes: alerts that wait for hours. */
export const SLOW_CASES: readonly AlertCase[] = [
  slow('MeterfeedUsageHeld', '4h', { meterfeed_held_events: '0x20 3x400' }),
  slow('MeterfeedAnchorsFailing', '4h', { meterfeed_anchors_failing: '0x20 1x400' }),
  slow('MeterfeedTenantsParked', '4h', {
    [`meterfeed_destination_parked_events${LAGO}`]: '0x20 3x400',
  }),
  slow('MeterfeedDestinationFillsVolume', '4h', {
    [`meterfeed_destination_volume_full_seconds${LAGO}`]: '900000x20 500000x400',
  }),
  slow('MeterfeedInvoiceMismatch', '4h', {
    [`meterfeed_destination_invoice_mismatches${LAGO}`]: '0x20 3x400',
  }),
  slow('MeterfeedRetentionBehind', '4h', {
    meterfeed_ledger_oldest_timestamp_seconds: '0x20 -400000x400',
    meterfeed_ledger_retention_seconds: '0x420',
    meterfeed_ledger_segments: '2x420',
  }),
  slow('MeterfeedDestinationDrift', '6h', {
    [`meterfeed_destination_drift_rows${LAGO}`]: '0x20 1x400',
  }),
  slow('MeterfeedPricesDiffer', '6h', {
    [`meterfeed_destination_price_differences${LAGO}`]: '0x20 1x400',
  }),
  slow('MeterfeedInvoicesUnanswered', '27h', {
    [`meterfeed_destination_invoices_unanswered${LAGO}`]: '0x20 1x400',
  }),
];

/** Alerts about what has grown within a while, by the counter, with what is too much. */
const COUNTERS: readonly (readonly [alert: string, counter: string, tooMuch: number])[] = [
  ['MeterfeedUnattributedGpuTime', 'meterfeed_unattributed_gpu_seconds_total', 60],
  ['MeterfeedGaps', 'meterfeed_gap_seconds_total{source="collector"}', 60],
  ['MeterfeedPrivateNodeFlaps', 'meterfeed_private_node_flaps_total', 40],
  ['MeterfeedPrivateNodeRelabelled', 'meterfeed_private_node_relabels_total', 1],
  ['MeterfeedExpiredReversal', 'meterfeed_expired_reversal_seconds_total', 60],
  ['MeterfeedGatewaySumsRefused', 'meterfeed_intake_conflicts_total', 1],
  ['MeterfeedClockSteps', 'meterfeed_clock_steps_total', 1],
  [
    'MeterfeedAlertsRefused',
    'meterfeed_webhook_messages_total{outcome="refused",provider="stripe"}',
    9,
  ],
];

/** The series is there from 0 on, and grows once. */
const GROWING = COUNTERS.map(([alert, counter, tooMuch]) =>
  bad(alert, { [counter]: `0x20 ${tooMuch}x40` }),
);

/** The series comes with its first increase, as where a label is new or a process has just begun; it does not grow. */
const BORN_HIGH = COUNTERS.map(([alert, counter, tooMuch]) =>
  bad(alert, { [counter]: `_x20 ${tooMuch}x40` }),
);

/** What a counter has had for more than an hour is no news. */
export const OLD_COUNTERS: Readonly<Record<string, string>> = Object.fromEntries(
  COUNTERS.map(([, counter, tooMuch]) => [counter, `${tooMuch}x200`]),
);

/** With {@link SLOW_CASES} at least one case of every alert. */
export const ALERT_CASES: readonly AlertCase[] = [...GAUGES, ...GROWING, ...BORN_HIGH];

function bad(alert: string, series: AlertCase['series'], also: readonly string[] = []): AlertCase {
  return { alert, series, quietAt: '19m', firesAt: '45m', also };
}

function slow(alert: string, firesAt: string, series: AlertCase['series']): AlertCase {
  return { alert, series, quietAt: '100m', firesAt };
}
