//! Measuring two things in turns: what else this machine does at some time, it does to both.

use asat_core::Problem;

/// Measures something of both so often, each time in the other order. It is told how often it was measured before.
pub(super) async fn in_turns<T, M>(
    first: &mut T,
    second: &mut T,
    times: u32,
    measure: impl AsyncFn(&mut T, u32) -> Result<M, Problem>,
) -> Result<Vec<(M, M)>, Problem> {
    let mut pairs = Vec::new();
    for nth in 0..times {
        let pair = if nth.is_multiple_of(2) {
            let of_first = measure(first, nth).await?;
            (of_first, measure(second, nth).await?)
        } else {
            let of_second = measure(second, nth).await?;
            (measure(first, nth).await?, of_second)
        };
        pairs.push(pair);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn each_comes_first_in_turns() {
        let order = RefCell::new(Vec::new());
        let (mut first, mut second) = ("first", "second");
        let pairs = in_turns(&mut first, &mut second, 2, async |which: &mut &str, nth| {
            order.borrow_mut().push(*which);
            Ok((*which, nth))
        });
        assert_eq!(pairs.await.unwrap(), [(("first", 0), ("second", 0)), (("first", 1), ("second", 1))]);
        assert_eq!(order.into_inner(), ["first", "second", "second", "first"]);
    }
}
