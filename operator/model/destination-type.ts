/**
 * A kind of billing system that events can be delivered to, such as `webhook`: the name of its folder in
 * `operator/destinations/`, and `spec.type` of a BillingDestination.
 */
export type DestinationType = string;
