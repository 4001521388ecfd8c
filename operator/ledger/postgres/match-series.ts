import type { EncodedEvent } from '../writer.ts';
import { columnsOf, type EventRow, splitEvent, type SplitEvent } from './event-rows.ts';
import type { SeriesCache } from './series-cache.ts';
import { type NumberedSeries, seriesKey } from './series.ts';

/** `known`: series and row make exactly the event's text. */
export type Match =
  | {
      readonly kind: 'known';
      readonly key: string;
      readonly series: NumberedSeries;
      readonly row: EventRow;
    }
  | {
      readonly kind: 'split';
      readonly key: string;
      readonly split: SplitEvent;
      readonly text: string;
    };

export type Matches = ReadonlyMap<EncodedEvent, Match>;

export function matchAll(events: readonly EncodedEvent[], cache: SeriesCache): Matches {
  return new Map(events.map((event) => [event, matchSeries(event, cache)]));
}

/** Most events are like one of before but for their own values, which is seen without taking them apart. */
export function matchSeries({ event, text }: EncodedEvent, cache: SeriesCache): Match {
  const row = columnsOf(event);
  const series =
    whereItMakes(text, row, cache.following()) ?? whereItMakes(text, row, cache.likely(event));
  if (series !== undefined) {
    cache.follow(series);
    return { kind: 'known', key: series.key, series, row };
  }
  const split = splitEvent(event);
  const key = seriesKey(split.series);
  cache.expect(event, key);
  return { kind: 'split', key, split, text };
}

function whereItMakes(
  text: string,
  row: EventRow,
  series: NumberedSeries | undefined,
): NumberedSeries | undefined {
  return series?.template?.makes(row, text) === true ? series : undefined;
}
