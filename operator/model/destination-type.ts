/** The kinds of billing systems that events can be delivered to. */
export type DestinationType = 'lago' | 'stripe' | 'metronome' | 'webhook' | 'noop';
