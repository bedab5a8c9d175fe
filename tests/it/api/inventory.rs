//! `/api/v1/events/{slug}/inventory`

use serde_json::json;

use crate::support::Shop;

const PATH: &str = "/api/v1/events/gala/inventory";

#[test]
fn a_count_is_loaded_and_put_on_sale() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let dry = shop.client.post(&format!("{PATH}?dry_run=true"), &json!({"ticket_type": "standard", "quantity": 500}));
    assert_eq!((dry.status, &dry.json()["loaded"], shop.count("AVAILABLE")), (200, &json!(500), 0));
    let loaded = shop.client.post(PATH, &json!({"ticket_type": "standard", "quantity": 500}));
    let types = json!([{"ticket_type": "standard", "loaded": 500, "already_there": 0}]);
    assert_eq!(loaded.json(), json!({"event": "gala", "dry_run": false, "loaded": 500, "already_there": 0, "ticket_types": types}));
    assert_eq!((loaded.status, shop.count("AVAILABLE")), (201, 500));
    for wrong in [json!(0), json!(-5), json!("5"), json!(1_000_001), json!(null)] {
        assert_eq!(shop.client.post(PATH, &json!({"ticket_type": "standard", "quantity": wrong})).status, 422, "{wrong}");
    }
    assert_eq!(shop.client.post(PATH, &json!({"ticket_type": "vip", "quantity": 1})).json()["errors"][0]["field"], "ticket_type");
}

#[test]
fn a_load_under_the_same_key_happens_once() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let five = json!({"ticket_type": "standard", "quantity": 5});
    let first = shop.client.post_keyed(PATH, "load-1", &five);
    let again = shop.client.post_keyed(PATH, "load-1", &five);
    assert_eq!((first.status, first.json(), shop.count("AVAILABLE")), (again.status, again.json(), 5));
    let other = shop.client.post_keyed(PATH, "load-1", &json!({"ticket_type": "standard", "quantity": 6}));
    assert_eq!((other.status, other.code().as_str()), (422, "idempotency_key_reused"));
}

#[test]
fn the_same_file_twice_loads_once() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let file =
        b"ticket_type,section,row,seat,price_minor,external_ref\nstandard,A,1,1,4500,x-1\nstandard,A,1,2,4500,x-2\nstandard,B,1,1,,\n";
    let first = shop.client.post_csv(PATH, file).json();
    let again = shop.client.post_csv(PATH, file).json();
    assert_eq!((&first["loaded"], &again["loaded"], &again["already_there"]), (&json!(3), &json!(0), &json!(3)));
    assert_eq!(shop.count("AVAILABLE"), 3);
    let sold = shop.buy(3).json();
    assert_eq!((&sold["tickets"][2]["section"], &sold["tickets"][2]["seat"]), (&json!("B"), &json!("1")));
    assert_eq!(shop.client.post_csv(PATH, file).json()["already_there"], 3, "also when they are sold");
}

#[test]
fn a_wrong_row_is_named_and_nothing_is_loaded() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let refused = shop.client.post_csv(PATH, b"ticket_type,section,row,seat\nstandard,A,1,1\nstandard,A,1,2\nstandard,A,1,1\n");
    let error = &refused.json()["errors"][0];
    assert_eq!((refused.status, &error["row"], &error["field"]), (422, &json!(4), &json!("seat")), "{refused:?}");
    assert_eq!((refused.json()["errors_total"].as_i64(), shop.count("AVAILABLE")), (Some(1), 0));
}

#[test]
fn a_file_that_contradicts_the_stock_is_refused() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0), ("vip", 9_000, 0)]);
    assert_eq!(shop.client.post_csv(PATH, b"ticket_type,seat,external_ref\nstandard,1,x-1\nstandard,2,\n").status, 201);
    for file in
        ["ticket_type,seat\nvip,2\n", "ticket_type,seat,external_ref\nstandard,9,x-1\n", "ticket_type,seat,external_ref\nstandard,1,x-2\n"]
    {
        let refused = shop.client.post_csv(PATH, file.as_bytes());
        assert_eq!((refused.status, &refused.json()["errors"][0]["row"]), (422, &json!(2)), "{file}");
    }
    assert_eq!(shop.count("AVAILABLE"), 2);
}

#[test]
fn a_german_spreadsheet_loads_and_one_that_is_not_utf_8_does_not() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let german = "\u{feff}Ticket_Type ;Section;Row;Seat\r\nstandard;Gal\u{e9}rie;\u{c4};1\r\n";
    assert_eq!(shop.client.post_csv(PATH, german.as_bytes()).json()["loaded"], 1);
    assert_eq!(shop.buy(1).json()["tickets"][0]["section"], "Gal\u{e9}rie");
    let refused = shop.client.post_csv(PATH, b"ticket_type,section,seat\nstandard,A,2\nstandard,caf\xe9,3\n");
    assert_eq!((refused.status, &refused.json()["errors"][0]["row"], shop.count("AVAILABLE")), (422, &json!(3), 0));
}

#[test]
fn loads_at_the_same_moment_add_up_and_leave_no_gap() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let replies = crate::support::at_once(8, |_| shop.client.post(PATH, &json!({"ticket_type": "standard", "quantity": 25})).status);
    assert_eq!((replies, shop.count("AVAILABLE")), (vec![201; 8], 200));
    let last = shop.client.post("/api/v1/events/gala/orders", &crate::support::order(100)).json();
    assert_eq!(last["tickets"][99]["position"], 100);
}
